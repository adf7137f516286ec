//! What the machines with and without domains share.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use poorwill_machine::console::{Fields, Line};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::size::Bytes;
use poorwill_machine::{DEBIAN_COMMAND_LINE, Qemu, RunningMachine, paths};

use crate::BenchOptions;
use crate::compare::guest::{REDIS, ms};
use crate::not_measured::CONSOLE;

/// RAM of each domain.
pub(super) const MEMORY: Bytes = Bytes::mib(512);

/// Time for which the machine sleeps.
pub(super) const SLEEP: Duration = Duration::from_millis(500);

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
    /// Makes a disk with Debian's root, and these sleep areas.
    pub(super) fn make_disk(&self, file: &Path, areas: Vec<Bytes>) -> anyhow::Result<()> {
        let new = NewDisk {
            root: Some(self.guest.root.clone()),
            swap: None,
            areas,
        };
        new.create(file, true, &ProgressBar::hidden())?;
        Ok(())
    }
}

pub(super) fn command_line() -> String {
    format!("{DEBIAN_COMMAND_LINE} poorwill.compare")
}

/// Waits for redis after a wake, which the firmware reports in `line`. Returns the time of the
/// answer, and Linux's part: the firmware's `own_ms` before the report, and the time after it.
pub(super) fn time_answer(
    running: &mut RunningMachine,
    line: &Line,
    own_ms: f64,
) -> anyhow::Result<(Duration, f64)> {
    let redis = running.wait_for(REDIS, LIMIT)?;
    running.wait_for(WOKE, LIMIT)?;
    Ok((redis.at, own_ms + ms(redis.at.saturating_sub(line.at))))
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
