//! Sleeping machines, each of which is made once for all trials that begin with it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::expand::Trial;

/// The files of such machines, kept until the run ends.
#[derive(Debug, Default)]
pub struct Prepared(Mutex<BTreeMap<String, Arc<Mutex<Option<TempDir>>>>>);

impl Prepared {
    /// Fills `folder` with the files after the trial's first step. If no trial has run this step
    /// yet, `first_step` runs it in `folder`. If it fails, the next trial tries again.
    ///
    /// The caller must not have a turn on the cores, since other trials wait here for `first_step`.
    ///
    /// # Errors
    ///
    /// Errors of `first_step`, and of copying.
    pub fn begin(
        &self,
        trial: &Trial,
        folder: &Path,
        first_step: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = Arc::clone(all.entry(start_of(trial)).or_default());
        drop(all);
        let mut kept = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept {
            return copy(kept.path(), folder);
        }
        first_step()?;
        let beside = folder.parent().context("the trial's folder is the root")?;
        let new = TempDir::with_prefix_in("prepared.", beside)?;
        copy(folder, new.path())?;
        *kept = Some(new);
        Ok(())
    }
}

/// All settings that determine the result of the first step, as a key: trials with equal keys share
/// it.
fn start_of(trial: &Trial) -> String {
    let row = &trial.row;
    let machine = (
        &trial.kind,
        trial.harts,
        trial.memory,
        row.guest,
        row.kernel,
    );
    let kept = (&trial.disks, row.vault, row.junk_initrd, row.poison_free);
    format!(
        "{machine:?} {:?} {kept:?} {:?}",
        row.words,
        trial.steps.first()
    )
}

/// Copies the files of a folder. Holes stay holes.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(from)? {
        let file = entry?.path();
        let status = Command::new("cp")
            .args(["--reflink=auto", "--sparse=auto", "--"])
            .args([&file, to])
            .status()
            .context("cp")?;
        ensure!(
            status.success(),
            "cp {} ended with {status}",
            file.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use poorwill_machine::paths::Kernel;

    use super::*;
    use crate::{expand, load_plan};

    fn trial(name: &str) -> Trial {
        let trials = expand(&load_plan().unwrap()).unwrap();
        trials.into_iter().find(|trial| trial.name == name).unwrap()
    }

    #[test]
    fn the_first_step_is_done_once() {
        let (work, prepared) = (TempDir::new().unwrap(), Prepared::default());
        let mut done = 0;
        for name in ["map", "state", "header"] {
            let folder = work.path().join(name);
            fs::create_dir(&folder).unwrap();
            let trial = trial(&format!("damaged-{name}/aia/2/256M"));
            let first_step = || {
                done += 1;
                Ok(fs::write(folder.join("disk0.raw"), name)?)
            };
            prepared.begin(&trial, &folder, first_step).unwrap();
            assert_eq!(fs::read(folder.join("disk0.raw")).unwrap(), b"map");
        }
        assert_eq!(done, 1);
    }

    #[test]
    fn one_that_fails_is_not_kept() {
        let (work, prepared) = (TempDir::new().unwrap(), Prepared::default());
        let folder = work.path().join("trial");
        fs::create_dir(&folder).unwrap();
        let trial = trial("damaged-map/aia/2/256M");
        let fails = || anyhow::bail!("the machine does not sleep");
        assert!(prepared.begin(&trial, &folder, fails).is_err());
        let mut done = false;
        let sleeps = || {
            done = true;
            Ok(())
        };
        prepared.begin(&trial, &folder, sleeps).unwrap();
        assert!(done);
    }

    #[test]
    fn other_machines_begin_otherwise() {
        let plain = start_of(&trial("damaged-map/aia/2/256M"));
        let mut newer = trial("damaged-map/aia/2/256M");
        newer.row.kernel = Kernel::Backports;
        assert_ne!(plain, start_of(&newer));
        assert_eq!(plain, start_of(&trial("damaged-state/aia/2/256M")));
        for other in [
            "damaged-data/plic",
            "damaged-data-mapped/aia",
            "sealed-damaged-map/aia",
        ] {
            assert_ne!(
                plain,
                start_of(&trial(&format!("{other}/2/256M"))),
                "{other}"
            );
        }
    }
}
