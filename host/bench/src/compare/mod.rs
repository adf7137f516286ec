//! Poorwill beside its peers: on one machine, with the same guest and the same
//! memory in use, in turns.
//!
//! For each machine two guests are booted. In each round the one sleeps and wakes
//! twice, moves as many bytes plainly each time, and, on as much memory, Linux
//! hibernates, and with the least in use a third one boots; the other one, with the
//! same contents, is saved and restored by QEMU.
//! That one has its
//! root on virtio-blk and on a disk of its own, for QEMU saves no machine with an
//! NVMe controller. Machines with as much memory in use have their rounds in turns
//! too: what a host does changes within minutes.

mod figures;
mod guest;
mod pair;
mod peers;
mod plan;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub use figures::{
    Case, ColdBoot, Comparison, Hibernation, PlainCopy, QemuCycle, Sleep, Wake, gib, rate,
};
use pair::{Pair, Setting};
pub use plan::{QUICK, Room, Size, USUAL, combinations, hibernating, least};

use poorwill_machine::paths;
use poorwill_machine::{Qemu, interrupt};

use crate::NotHad;

/// What Linux needs to hibernate as fast as it can: what is in memory does not
/// compress, and `platform` is nothing that firmware offers.
pub(super) const HIBERNATION_WORDS: &str = "resume=PARTLABEL=swap hibernate=nocompress";
/// The kernel that loads the hibernated one runs on one hart: on more, it often
/// loses the disk's interrupts as it begins, and waits for ever.
pub(super) const RESUME_WORDS: &str = "maxcpus=1";
/// These and the rest, for people.
const HIBERNATION_SETTINGS: &str = "resume=PARTLABEL=swap written to /sys/power/resume by the \
     initramfs, hibernate=nocompress, /sys/power/disk=shutdown, /sys/power/image_size=all of RAM; \
     maxcpus=1 for the kernel that loads";

/// Hibernations that fail are not tried for ever: each takes minutes.
pub(super) const MAX_FAILED_HIBERNATIONS: usize = 2;

/// Choices of the comparison.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The firmware to measure.
    pub firmware: PathBuf,
    /// Where disks may be made; removed by the caller.
    pub folder: PathBuf,
    /// How often each case is measured.
    pub rounds: u32,
    /// How often hibernation is, in the cases of [`hibernating`].
    pub hibernations: u32,
    /// Harts of the machines.
    pub harts: u32,
    /// The machines.
    pub sizes: Vec<Size>,
}

/// Measures into `results`, which has what was measured before a failure too.
///
/// # Errors
///
/// What failed, with the console's end.
pub fn measure(
    options: &CompareOptions,
    results: &mut Option<Comparison>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let qemu = Qemu::find()?;
    let guest = paths::Guest::find(paths::Kernel::Stock)?;
    let comparison = results.insert(Comparison {
        rounds: options.rounds,
        harts: options.harts,
        hibernation_settings: HIBERNATION_SETTINGS.into(),
        ..Comparison::default()
    });
    let (sizes, left_out) = Room::of(&options.folder)?.choose(&options.sizes);
    for reason in &left_out {
        tell(&format!("left out: {reason}"));
    }
    comparison.left_out = left_out;
    // It is there for as long as it is asked whether it is full.
    let folder = tempfile::tempdir_in(&options.folder)?;
    let setting = Setting {
        options,
        folder: folder.path(),
        qemu: &qemu,
        guest: &guest,
        hibernating: &hibernating(&sizes),
        booting: least(&sizes),
        tell,
    };
    measure_all(setting, &sizes, comparison).map_err(|error| {
        let full = Room::of(folder.path()).is_ok_and(|room| room.disk_mib < 64);
        match full {
            true => error.context(format!("no room left in {}", options.folder.display())),
            false => error,
        }
    })
}

/// Adds a case for each of `sizes`, which ascend, and keeps them in that order. A machine that
/// cannot be had is left out, with the reason.
fn measure_all(
    setting: Setting<'_>,
    sizes: &[Size],
    comparison: &mut Comparison,
) -> anyhow::Result<()> {
    let mut pairs = Vec::new();
    for of_a_machine in sizes.chunk_by(|one, next| one.installed_mib == next.installed_mib) {
        match Pair::new(setting, of_a_machine) {
            Ok(pair) => pairs.push(pair),
            Err(error) => {
                interrupt::check()?;
                let installed = of_a_machine.first().map_or(0, |size| size.installed_mib);
                let not_had = NotHad::new(format!("the machine of {} GiB", gib(installed)), &error);
                (setting.tell)(&format!("left out: {not_had}: {error:#}"));
                comparison.left_out.push(not_had.to_string());
            }
        }
    }
    let used: BTreeSet<u64> = sizes.iter().map(|size| size.used_mib).collect();
    let cases = &mut comparison.cases;
    for used_mib in used {
        let measured = measure_in_turns(&mut pairs, setting, used_mib);
        cases.extend(measured);
        cases.sort_by_key(|case| (case.installed_mib, case.used_mib));
        interrupt::check()?;
    }
    match pairs.is_empty() && !sizes.is_empty() {
        true => bail!(
            "no machine could be had: {}",
            comparison.left_out.join("; ")
        ),
        false => Ok(()),
    }
}

/// The cases with `used_mib` in use, round by round. One that cannot go on has what was measured
/// before; the others go on.
fn measure_in_turns(pairs: &mut [Pair<'_>], setting: Setting<'_>, used_mib: u64) -> Vec<Case> {
    let mut going: Vec<_> = (pairs.iter_mut())
        .filter_map(|pair| {
            let case = pair.case(used_mib)?;
            Some((pair, case, true))
        })
        .collect();
    for round in 0..=setting.options.rounds {
        for (pair, case, goes_on) in going.iter_mut().filter(|(_, _, goes_on)| *goes_on) {
            let done = match round {
                0 => pair.begin(&case.case),
                round => pair.round(case, round),
            };
            if let Err(error) = done {
                *goes_on = false;
                (setting.tell)(&format!("{}: not had: {error:#}", case.case.name()));
                let what = format!("rounds from {} on", round.max(1));
                case.case.not_had.push(NotHad::new(what, &error));
            }
        }
    }
    going.into_iter().map(|(_, going, _)| going.case).collect()
}

/// Removes what is no longer needed; it may be large.
fn remove(file: &Path) -> anyhow::Result<()> {
    fs::remove_file(file).with_context(|| format!("removing {}", file.display()))
}
