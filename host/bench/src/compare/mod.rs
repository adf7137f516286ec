//! Compares Poorwill with its peers on one host, with the same guest and the same memory in use, in
//! turns.
//!
//! For each machine two guests are booted. In each round the first sleeps and wakes twice. Each
//! wake is followed by plain copies of the image's length. At some sizes Linux also hibernates.
//! With the least memory in use a third machine boots in each round. QEMU saves and restores the
//! second guest, which has the same contents. Its root is on virtio-blk and on a disk of its own,
//! since QEMU cannot save a machine with an NVMe controller. Machines with equal memory in use take
//! turns, because a host's speed changes within minutes.

mod figures;
pub(crate) mod guest;
mod pair;
mod peers;
mod plan;

use std::collections::BTreeSet;

use anyhow::bail;

pub use figures::{
    Case, ColdBoot, Comparison, Hibernation, PlainCopy, QemuCycle, Sleep, Wake, gib, rate,
};
pub(crate) use pair::{HIBERNATION_WORDS, MAX_FAILED_HIBERNATIONS, RESUME_WORDS};
use pair::{Pair, Setting};
pub use plan::{CompareOptions, QUICK, Room, Size, USUAL, combinations, hibernating, least};

use poorwill_machine::paths;
use poorwill_machine::{Qemu, interrupt};

use crate::NotMeasured;

/// All settings of the hibernation, for the report.
const HIBERNATION_SETTINGS: &str = "resume=PARTLABEL=swap written to /sys/power/resume by the \
     initramfs, hibernate=nocompress, /sys/power/disk=shutdown, /sys/power/image_size=all of RAM; \
     maxcpus=1 for the kernel that loads";

/// Runs the measurement. After an error, `results` has the figures up to it.
///
/// # Errors
///
/// A machine that does not sleep or wake; too little memory or disk space; an interruption.
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
    // The folder must exist before its free space is checked.
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
            true => error.context(format!("no space left in {}", options.folder.display())),
            false => error,
        }
    })
}

/// Adds a case for each of `sizes`, which must ascend. A machine that cannot be created is left
/// out, with the reason.
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
                let not_had =
                    NotMeasured::new(format!("the machine of {} GiB", gib(installed)), &error);
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
            "no machine could be created: {}",
            comparison.left_out.join("; ")
        ),
        false => Ok(()),
    }
}

/// Measures the cases with `used_mib` in use, round by round. After an error, a case keeps its
/// earlier figures, and the others continue.
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
                (setting.tell)(&format!("{}: not measured: {error:#}", case.case.name()));
                let what = format!("rounds from {} on", round.max(1));
                case.case.not_had.push(NotMeasured::new(what, &error));
            }
        }
    }
    going.into_iter().map(|(_, going, _)| going.case).collect()
}
