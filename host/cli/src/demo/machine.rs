//! How the demos start a machine, and how they show its failure.

use std::path::Path;

use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, interrupt};

use super::screen::Screen;

/// The firmware's console line if a machine was lost.
pub(super) const COLD_BOOT: &str = "poorwill: cold boot";

/// Powers a machine on. The screen and the log show its console. A line with one of these texts
/// ends a wait with an error.
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

/// Shows the machine's last console lines if there is an error.
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
