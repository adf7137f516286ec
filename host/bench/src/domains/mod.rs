//! Measures a machine with two domains: a critical guest that sends CAN frames, and a Debian with
//! redis. The machine's cold boots are compared with its wakes out of powered RAM, and Linux's
//! wakes with those of a machine without domains.
//!
//! Both machines take turns, because a host's speed changes within minutes.

mod alone;
pub(crate) mod figures;
pub mod frames;
mod together;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::ProgressBar;
use poorwill_machine::console::{Fields, Line};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::paths;
use poorwill_machine::size::Bytes;
use poorwill_machine::{DEBIAN_COMMAND_LINE, Qemu, RunningMachine};

pub use figures::{Domains, Start};

use crate::BenchOptions;
use crate::compare::guest::{REDIS, ms};
use crate::not_measured::CONSOLE;

/// RAM of each domain.
const MEMORY: Bytes = Bytes::mib(512);

/// Wakes after each cold boot.
const TURN: usize = 10;

/// Time for which the machine sleeps.
const SLEEP: Duration = Duration::from_millis(500);

/// Longer than a slow host needs; a machine that hangs ends the measurement.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
const LIMIT: Duration = Duration::from_secs(120);

/// What the guest prints when it obeys the next command
/// (`guest/overlay/usr/local/lib/poorwill/compare`).
const READY: &str = "poorwill-compare: ready";
const WOKE: &str = "poorwill-compare: woke";

/// Measures `options.rounds` wakes. After an error, `results` has the figures up to it.
pub(crate) fn measure(
    options: &BenchOptions,
    results: &mut Option<Domains>,
    tell: &dyn Fn(&str),
) -> anyhow::Result<()> {
    let setting = Setting {
        options,
        qemu: Qemu::find()?,
        guest: paths::Guest::find(paths::Kernel::Stock)?,
    };
    let figures = results.insert(Domains {
        harts: options.harts,
        memory_mib: MEMORY.in_mib(),
        ..Domains::default()
    });
    let wakes = options.rounds as usize;
    while figures.wakes.len() < wakes {
        let turn = TURN.min(wakes - figures.wakes.len());
        together::measure(&setting, turn, figures)?;
        alone::measure(&setting, turn, figures)?;
        tell(&format!("{} of {wakes} wakes", figures.wakes.len()));
    }
    Ok(())
}

/// What all machines share.
struct Setting<'o> {
    options: &'o BenchOptions,
    qemu: Qemu,
    guest: paths::Guest,
}

impl Setting<'_> {
    /// Makes a disk with Debian's root, and these sleep areas.
    fn make_disk(&self, file: &Path, areas: Vec<Bytes>) -> anyhow::Result<()> {
        let new = NewDisk {
            root: Some(self.guest.root.clone()),
            swap: None,
            areas,
        };
        new.create(file, true, &ProgressBar::hidden())?;
        Ok(())
    }
}

fn command_line() -> String {
    format!("{DEBIAN_COMMAND_LINE} poorwill.compare")
}

/// Waits for redis after a wake, which the firmware reports in `line`. Returns the time of the
/// answer, and Linux's part: the firmware's `own_ms` before the report, and the time after it.
fn time_answer(
    running: &mut RunningMachine,
    line: &Line,
    own_ms: f64,
) -> anyhow::Result<(Duration, f64)> {
    let redis = running.wait_for(REDIS, LIMIT)?;
    running.wait_for(WOKE, LIMIT)?;
    Ok((redis.at, own_ms + ms(redis.at.saturating_sub(line.at))))
}

/// The value of `key` in a line that starts with `prefix`.
fn field(line: &Line, prefix: &str, key: &str) -> anyhow::Result<f64> {
    let fields = Fields::parse(&line.text, prefix);
    let value = fields.and_then(|fields| fields.get(key)?.parse().ok());
    value.with_context(|| format!("{:?} has no {key}", line.text))
}

/// Adds the step's name and the last console lines to an error.
fn explain<T>(
    running: &RunningMachine,
    outcome: anyhow::Result<T>,
    what: &str,
) -> anyhow::Result<T> {
    outcome.with_context(|| format!("{what}{CONSOLE}\n{}\n", running.tail(15).join("\n")))
}
