//! Linux alone on a machine without domains, whose sleeps keep RAM powered.

use poorwill_machine::area::{Change, configure};
use poorwill_machine::console::FAILURES;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Disk, Machine, PowerOn, RunningMachine};
use poorwill_store::SleepMode;

use super::figures::Domains;
use super::setting::{
    BOOT_LIMIT, LIMIT, MEMORY, READY, SLEEP, Setting, command_line, explain, field, time_answer,
};

/// The sleep area. It has the machine's sleep mode, and no image.
const AREA: Bytes = Bytes::gib(1);

const WAKE: &str = "poorwill: wake ";

/// Boots the machine, and adds the figures of `wakes` wakes.
pub(super) fn measure(
    setting: &Setting<'_>,
    wakes: usize,
    figures: &mut Domains,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(&setting.options.folder)?;
    let disk = folder.path().join("alone.disk");
    setting.make_disk(&disk, vec![AREA])?;
    configure(
        &disk,
        &Change {
            mode: Some(SleepMode::Retain),
            ..Change::default()
        },
    )?;
    let machine = Machine {
        harts: setting.options.harts,
        memory: MEMORY,
        kernel: Some(setting.guest.kernel.clone()),
        initrd: Some(setting.guest.initrd.clone()),
        command_line: command_line(),
        disks: vec![Disk::nvme(disk)],
        ..Machine::new(&setting.options.firmware)
    };
    let mut running = machine.power_on(&setting.qemu, PowerOn::default())?;
    running.fail_on(&FAILURES);
    let measured = time(&mut running, wakes, &mut figures.alone_ms);
    explain(&running, measured, "Linux without domains")?;
    running.kill()?;
    Ok(())
}

fn time(running: &mut RunningMachine, wakes: usize, figures: &mut Vec<f64>) -> anyhow::Result<()> {
    running.wait_for(READY, BOOT_LIMIT)?;
    for _ in 0..wakes {
        running.send(b"sleep\n")?;
        running.wait_for("poorwill: sleep mode=retain", LIMIT)?;
        running.run_for(SLEEP)?;
        // A key wakes the machine. The guest's shell ignores a space before a command.
        running.send(b" ")?;
        let line = running.wait_for(WAKE, LIMIT)?;
        let own_ms = field(&line, WAKE, "ms")?;
        figures.push(time_answer(running, &line, own_ms)?.1);
    }
    Ok(())
}
