//! What the machines with and without domains share.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use poorwill_machine::area::{Change, configure};
use poorwill_machine::console::{FAILURES, Fields, Line};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::size::Bytes;
use poorwill_machine::{DEBIAN_COMMAND_LINE, Qemu, RunningMachine, paths};
use poorwill_store::SleepMode;

use super::figures::Start;
use crate::BenchOptions;
use crate::compare::guest::{REDIS, ms};
use crate::not_measured::CONSOLE;

/// RAM of each domain.
pub(super) const MEMORY: Bytes = Bytes::mib(512);

/// Time for which the machine sleeps.
pub(super) const SLEEP: Duration = Duration::from_millis(500);

/// The sleep area of each machine. By default the machine saves, and switches itself off.
pub(super) const AREA: Bytes = Bytes::gib(1);

/// What ends a wait for a wake.
pub(super) const WAKE_FAILURES: [&str; 7] = {
    let [a, b, c, d, e] = FAILURES;
    [a, b, c, d, e, "poorwill: cold boot", " ends: "]
};

/// Longer than a slow host needs; a machine that hangs ends the measurement.
pub(super) const BOOT_LIMIT: Duration = Duration::from_secs(240);
pub(super) const LIMIT: Duration = Duration::from_secs(120);

/// What the guest prints when it obeys the next command
/// (`guest/overlay/usr/local/lib/poorwill/compare`).
pub(super) const READY: &str = "poorwill-compare: ready";
const WOKE: &str = "poorwill-compare: woke";

/// What all machines share.
pub(super) struct Setting<'o> {
    pub(super) options: &'o BenchOptions,
    pub(super) qemu: Qemu,
    pub(super) guest: paths::Guest,
}

impl Setting<'_> {
    /// A disk with Debian's root.
    pub(super) fn root(&self) -> NewDisk {
        NewDisk {
            root: Some(self.guest.root.clone()),
            ..NewDisk::default()
        }
    }
}

pub(super) fn make(disk: &NewDisk, file: &Path) -> anyhow::Result<()> {
    disk.create(file, true, &ProgressBar::hidden())?;
    Ok(())
}

/// Has a machine that is off keep its RAM powered in later sleeps.
pub(super) fn retain(disk: &Path) -> anyhow::Result<()> {
    let mode = Some(SleepMode::Retain);
    let change = Change {
        mode,
        ..Change::default()
    };
    configure(disk, &change)?;
    Ok(())
}

/// Waits until the machine has saved itself, and QEMU has ended.
pub(super) fn wait_off(running: &mut RunningMachine) -> anyhow::Result<()> {
    running.wait_for("poorwill: sleep mode=persist", LIMIT)?;
    running.wait_exit(LIMIT)?.check()?;
    Ok(())
}

pub(super) fn command_line() -> String {
    format!("{DEBIAN_COMMAND_LINE} poorwill.compare")
}

/// Waits for redis after a wake since `since`. The firmware reports the wake in `line`: Linux
/// continued then, `own_ms` after the firmware's begin.
pub(super) fn time_answer(
    running: &mut RunningMachine,
    line: &Line,
    own_ms: f64,
    since: Duration,
) -> anyhow::Result<Start> {
    let redis = running.wait_for(REDIS, LIMIT)?;
    running.wait_for(WOKE, LIMIT)?;
    let loaded_ms = ms(line.at.saturating_sub(since));
    Ok(Start {
        began_ms: Some((loaded_ms - own_ms).max(0.0)),
        loaded_ms: Some(loaded_ms),
        answer_ms: ms(redis.at.saturating_sub(since)),
        ..Start::default()
    })
}

/// The value of `key` in a line that starts with `prefix`.
pub(super) fn field(line: &Line, prefix: &str, key: &str) -> anyhow::Result<f64> {
    let fields = Fields::parse(&line.text, prefix);
    let value = fields.and_then(|fields| fields.get(key)?.parse().ok());
    value.with_context(|| format!("{:?} has no {key}", line.text))
}

/// Adds the step's name and the last console lines to an error.
pub(super) fn explain<T>(
    running: &RunningMachine,
    outcome: anyhow::Result<T>,
    what: &str,
) -> anyhow::Result<T> {
    outcome.with_context(|| format!("{what}{CONSOLE}\n{}\n", running.tail(15).join("\n")))
}
