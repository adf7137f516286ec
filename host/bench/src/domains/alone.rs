//! Linux alone on a machine without domains.

use std::time::Duration;

use poorwill_machine::console::FAILURES;
use poorwill_machine::{Disk, Machine, PowerOn, RunningMachine};

use super::figures::{Domains, Start};
use super::setting::{
    AREA, BOOT_LIMIT, LIMIT, MEMORY, READY, SLEEP, Setting, WAKE_FAILURES, command_line, explain,
    field, make, retain, time_answer, wait_off,
};

const WAKE: &str = "poorwill: wake ";

/// The machine in errors.
const WHAT: &str = "Linux without domains";

/// Boots the machine, and adds the figures of `wakes` wakes of each kind.
pub(super) fn measure(
    setting: &Setting<'_>,
    wakes: usize,
    figures: &mut Domains,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(&setting.options.folder)?;
    let disk = folder.path().join("alone.disk");
    let mut new = setting.root();
    new.areas.push(AREA);
    make(&new, &disk)?;
    let machine = Machine {
        harts: setting.options.harts,
        memory: MEMORY,
        kernel: Some(setting.guest.kernel.clone()),
        initrd: Some(setting.guest.initrd.clone()),
        command_line: command_line(),
        disks: vec![Disk::nvme(disk.clone())],
        ..Machine::new(&setting.options.firmware)
    };
    let mut running = machine.power_on(&setting.qemu, PowerOn::default())?;
    running.fail_on(&FAILURES);
    let booted = running.wait_for(READY, BOOT_LIMIT).map_err(Into::into);
    explain(&running, booted, WHAT)?;
    for number in 1..=wakes {
        let slept = sleep(&mut running);
        explain(&running, slept, WHAT)?;
        if number == wakes {
            retain(&disk)?;
        }
        running = machine.power_on(&setting.qemu, PowerOn::default())?;
        running.fail_on(&WAKE_FAILURES);
        let woken = time_wake(&mut running, Duration::ZERO);
        figures
            .alone_persist_wakes
            .push(explain(&running, woken, WHAT)?);
    }
    for _ in 0..wakes {
        let woken = rest_and_wake(&mut running);
        figures.alone_ms.push(explain(&running, woken, WHAT)?);
    }
    running.kill()?;
    Ok(())
}

/// Sleeps with the power off.
fn sleep(running: &mut RunningMachine) -> anyhow::Result<()> {
    running.send(b"sleep\n")?;
    wait_off(running)
}

/// Sleeps with powered RAM, and wakes. Returns the time to redis's answer, in ms.
fn rest_and_wake(running: &mut RunningMachine) -> anyhow::Result<f64> {
    running.send(b"sleep\n")?;
    running.wait_for("poorwill: sleep mode=retain", LIMIT)?;
    running.run_for(SLEEP)?;
    let since = running.elapsed();
    // A key wakes the machine. The guest's shell ignores a space before a command.
    running.send(b" ")?;
    Ok(time_wake(running, since)?.linux_ms())
}

fn time_wake(running: &mut RunningMachine, since: Duration) -> anyhow::Result<Start> {
    let line = running.wait_for(WAKE, LIMIT)?;
    let own_ms = field(&line, WAKE, "ms")?;
    time_answer(running, &line, own_ms, since)
}
