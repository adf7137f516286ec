//! Starts and failures of a demo's machine.

use std::path::Path;

use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, interrupt};

use super::screen::Screen;

/// The console line of a lost machine.
pub(super) const COLD_BOOT: &str = "poorwill: cold boot";

/// Powers a machine on, shown on the screen and in the log. Certain console lines count as
/// failures.
pub(super) fn power_on<'f>(
    (machine, qemu): (&Machine, &Qemu),
    screen: &Screen,
    log: &Path,
    failures: impl IntoIterator<Item = &'f str>,
) -> anyhow::Result<RunningMachine> {
    let options = PowerOn {
        log: Some(log.to_owned()),
        watch: Some(screen.watcher()),
        ..PowerOn::default()
    };
    let mut running = machine.power_on(qemu, options)?;
    let failures: Vec<_> = failures.into_iter().collect();
    running.fail_on(&failures);
    Ok(running)
}

/// Shows the last console lines beside an error.
pub(super) fn explain<T>(
    screen: &Screen,
    running: &RunningMachine,
    outcome: anyhow::Result<T>,
) -> anyhow::Result<T> {
    if outcome.is_err() && !interrupt::requested() {
        screen.step("It failed. The last lines of the console:");
        for line in running.tail(15) {
            screen.say(&line);
        }
    }
    outcome
}
