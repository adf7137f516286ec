//! Runs one trial.

mod assemble;
mod bus;
mod compare;
mod events;
mod follow;
mod loops;
mod power_on;

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use poorwill_machine::area::{Change, Questions, configure, inspect};
use poorwill_machine::disk::fingerprint;

use crate::boot_files;
use crate::console::{Counts, pattern};
use crate::cores::Host;
use crate::damage;
use crate::disks::TrialDisk;
use crate::domains::Seen;
use crate::expand::Trial;
use crate::frames::Sent;
use crate::persistent;
use crate::plan::{DiskKind, End, Managing, PowerOn, Sleeping, Step, Tamper};
use crate::power;
use crate::prepared::Prepared;
use crate::setup::Setup;
use crate::snapshot;
use crate::soak::Soak;
use crate::tamper;

/// Length of the junk that is loaded as an initrd, and that a wake must clear.
const JUNK_BYTES: usize = 3 << 20;

/// Runs a trial in a folder of its own, which stays if the trial fails. Returns what its critical
/// guest has shown, for each power-on with [`PowerOn::frames`].
///
/// # Errors
///
/// The difference from the plan, with facts that help to find its cause.
pub fn run_trial(
    trial: &Trial,
    setup: &Setup,
    host: &Host<'_>,
    prepared: &Prepared,
) -> anyhow::Result<Vec<Seen>> {
    let work = setup.work.clone().map_err(anyhow::Error::msg)?;
    let folder = work.join(trial.name.replace('/', "-") + &format!(".{}", std::process::id()));
    remove_old(&work, &folder)?;
    fs::create_dir_all(&folder)?;
    let mut run = Run {
        trial,
        setup,
        host,
        prepared,
        folder: &folder,
        disks: Vec::new(),
        asleep: false,
        kept: Vec::new(),
        seen: BTreeSet::new(),
        is_repeated: false,
        counts: Counts::default(),
        shown: Vec::new(),
        sent: Sent::default(),
    };
    match run.all() {
        Ok(()) => {
            let shown = std::mem::take(&mut run.shown);
            fs::remove_dir_all(&folder)?;
            Ok(shown)
        }
        Err(error) => Err(error.context(format!(
            "{} failed; its disks and its console.log are kept in {}\nalone: \
             cargo test --release -p poorwill-tests --test machines -- --exact {}",
            trial.name,
            folder.display(),
            trial.name
        ))),
    }
}

/// Removes files of earlier failures of the same trial. Folders that another test process uses
/// stay.
fn remove_old(work: &Path, folder: &Path) -> anyhow::Result<()> {
    let (Some(stem), Ok(entries)) = (folder.file_stem(), fs::read_dir(work)) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let owner = path
            .extension()
            .and_then(|pid| pid.to_str())
            .unwrap_or_default();
        let abandoned = path == folder || !Path::new("/proc").join(owner).exists();
        if path.file_stem() == Some(stem) && abandoned {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

struct Run<'a> {
    trial: &'a Trial,
    setup: &'a Setup,
    host: &'a Host<'a>,
    prepared: &'a Prepared,
    folder: &'a Path,
    disks: Vec<TrialDisk>,
    /// Whether the machine slept in the last power-on, and its image was not changed since.
    asleep: bool,
    /// The ranges of machine mode's memory, after the guest has printed them.
    kept: Vec<Range<u64>>,
    /// Lines for [`PowerOn::differ`] and [`PowerOn::repeats`].
    seen: BTreeSet<String>,
    /// Whether one of these lines has come twice.
    is_repeated: bool,
    /// Numbers for [`PowerOn::grows`].
    counts: Counts,
    /// What power-ons with [`PowerOn::frames`] have shown.
    shown: Vec<Seen>,
    /// What the critical guest has sent since its start.
    sent: Sent,
}

impl Run<'_> {
    fn all(&mut self) -> anyhow::Result<()> {
        for (number, kind) in self.trial.disks.iter().enumerate() {
            let file = self.folder.join(format!("disk{number}.raw"));
            self.disks.push(self.make_disk(kind, file)?);
        }
        if self.trial.row.junk_initrd {
            fs::write(self.folder.join("junk"), vec![0xa5; JUNK_BYTES])?;
        }
        if self.trial.row.vault {
            fs::write(self.vault(), tamper::erased())?;
        }
        let (trial, mut done) = (self.trial, 0);
        if trial.row.prepared {
            let prepared = self.prepared;
            prepared.begin(trial, self.folder, || self.carry_out(&trial.steps[..1], 0))?;
            (self.asleep, done) = (true, 1);
        }
        self.carry_out(&trial.steps[done..], done)
    }

    /// Runs `steps`. `done` is the number of the steps before them.
    fn carry_out(&mut self, steps: &[Step], done: usize) -> anyhow::Result<()> {
        for (number, step) in steps.iter().enumerate() {
            let number = done + number + 1;
            match step {
                Step::Damage { damage } => {
                    let disk = self.last_disk()?;
                    damage::apply(*damage, &disk.file, disk.block_bytes())
                        .with_context(|| format!("step {number}: damage {damage:?}"))?;
                    self.asleep = false;
                }
                Step::Configure { configure } => self
                    .configure(configure)
                    .with_context(|| format!("step {number}: {configure:?}"))?,
                Step::Tamper { tamper } => {
                    self.tamper(*tamper)
                        .with_context(|| format!("step {number}: tamper {tamper:?}"))?;
                    self.asleep = self.asleep && *tamper == Tamper::Copy;
                }
                Step::Memory { memory } => persistent::apply(*memory, &power::memory(self.folder))
                    .with_context(|| format!("step {number}: memory {memory:?}"))?,
                Step::Snapshot { snapshot: managing } => {
                    let flash = self.trial.row.vault.then(|| self.vault());
                    snapshot::apply(*managing, self.last_disk()?, flash.as_deref())
                        .with_context(|| format!("step {number}: snapshot {managing:?}"))?;
                    self.asleep = self.asleep && *managing == Managing::Move;
                }
                Step::Set { set } => {
                    (self.check_set(set)).with_context(|| format!("step {number}: set {set:?}"))?
                }
                Step::Cuts { cuts, seed } => self
                    .cut(*cuts, seed.unwrap_or_else(|| fastrand::u64(..)))
                    .with_context(|| format!("step {number}: {cuts} power cuts"))?,
                Step::PowerOn(on) => {
                    let before = self.contents_if(on.writes_nothing)?;
                    for time in 1..=on.times {
                        let ended = self.power_on(on).with_context(|| match on.times {
                            1 => format!("step {number}"),
                            _ => format!("step {number}, time {time} of {}", on.times),
                        })?;
                        if on.power_on == End::SleepsThenSuccess {
                            ensure!(
                                time < on.times || ended == End::Success,
                                "step {number}: no success in {time} power-ons"
                            );
                            if ended == End::Success {
                                break;
                            }
                        }
                    }
                    ensure!(
                        on.repeats.is_none() || self.is_repeated,
                        "step {number}: no line has come twice"
                    );
                    ensure!(
                        self.contents_if(on.writes_nothing)? == before,
                        "step {number}: the last disk was written to"
                    );
                }
            }
        }
        Ok(())
    }

    fn make_disk(&self, kind: &DiskKind, file: PathBuf) -> anyhow::Result<TrialDisk> {
        let root = match kind.boot {
            true => {
                let tiny = self
                    .setup
                    .tiny_for(self.trial)
                    .map_err(anyhow::Error::msg)?;
                Some(boot_files::make(&tiny, &self.trial.row.words, self.folder)?)
            }
            false => self
                .setup
                .linux
                .as_ref()
                .ok()
                .map(|linux| linux.root.clone()),
        };
        TrialDisk::make(kind, file, root.as_deref())
    }

    fn tamper(&self, tamper: Tamper) -> anyhow::Result<()> {
        let make = |file| {
            let kind = self.trial.disks.last().context("the row has no disk")?;
            self.make_disk(kind, file)
        };
        tamper::apply(tamper, self.disks.last(), &self.vault(), make)
    }

    /// A hash of the last disk's contents, if it is `wanted`.
    fn contents_if(&self, wanted: bool) -> anyhow::Result<Option<u64>> {
        if !wanted {
            return Ok(None);
        }
        Ok(Some(fingerprint(&self.last_disk()?.file)?))
    }

    fn vault(&self) -> PathBuf {
        self.folder.join("vault")
    }

    /// The file that backs the machine's memory.
    fn memory(&self) -> PathBuf {
        self.folder.join("memory")
    }

    fn last_disk(&self) -> anyhow::Result<&TrialDisk> {
        self.disks.last().context("the row has no disk")
    }

    /// Changes the sleep settings, as `poorwill area set` does.
    fn configure(&self, sleeping: &Sleeping) -> anyhow::Result<()> {
        let change = Change {
            mode: sleeping.mode.as_deref().map(str::parse).transpose()?,
            stage_delay_ms: sleeping.delay_ms,
            next_snapshot: (sleeping.next_snapshot.as_deref())
                .map(str::parse)
                .transpose()?,
            snapshot_tries: sleeping.snapshot_tries,
            snapshot_key_ms: sleeping.snapshot_key_ms,
            ..Change::default()
        };
        configure(&self.last_disk()?.file, &change)?;
        Ok(())
    }

    /// Checks why the domains of the newest set did not wake.
    fn check_set(&self, wanted: &[String]) -> anyhow::Result<()> {
        let areas = inspect(&self.last_disk()?.file, Questions::default())?;
        let slots = areas.into_iter().flat_map(|area| area.slots);
        let newest = slots.max_by_key(|slot| slot.generation);
        let parts = newest.map(|slot| slot.parts).unwrap_or_default();
        let reasons = parts
            .into_iter()
            .map(|part| part.reason.unwrap_or_default());
        let reasons: Vec<_> = reasons.collect();
        let mut is_right = reasons.len() == wanted.len();
        for (reason, wanted) in reasons.iter().zip(wanted) {
            is_right &= match wanted.is_empty() {
                true => reason.is_empty(),
                false => pattern(wanted)?.is_match(reason),
            };
        }
        ensure!(is_right, "the parts have {reasons:?}");
        Ok(())
    }

    /// Cuts the machine's power `cuts` times.
    fn cut(&mut self, cuts: u32, seed: u64) -> anyhow::Result<()> {
        let qemu = self.setup.qemu.as_ref().map_err(|what| anyhow!("{what}"))?;
        // QEMU opens the disks when it writes its device tree.
        self.disks.iter().try_for_each(TrialDisk::switch_on)?;
        let soak = Soak {
            machine: self.machine(&PowerOn::ending(End::Sleep, 1), self.folder)?,
            sockets: (self.trial.kind.sockets)
                .then(|| self.sockets())
                .transpose()?,
            qemu,
            disks: &self.disks,
            files: self
                .trial
                .row
                .vault
                .then(|| self.vault())
                .into_iter()
                .collect(),
            folder: self.folder,
            limit: Duration::from_secs(self.trial.row.timeout_s),
            cpu_time: self.host.cpu_time.clone(),
        };
        // One turn for all power-ons, since the cuts are aimed by time.
        let _turn = self.host.turn();
        let counted = soak.run(cuts, seed)?;
        println!("{}: {counted}", self.trial.name);
        self.asleep = true;
        Ok(())
    }
}
