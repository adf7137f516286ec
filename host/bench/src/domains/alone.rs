//! Linux alone on a machine without domains.

use std::path::PathBuf;
use std::time::Duration;

use poorwill_machine::console::FAILURES;
use poorwill_machine::{Disk, Machine, PowerOn, RunningMachine};
use tempfile::TempDir;

use super::figures::Start;
use super::setting::{
    AREA, BOOT_LIMIT, LIMIT, MEMORY, READY, SLEEP, Setting, WAKE_FAILURES, command_line, explain,
    field, make, retain, time_answer, wait_off,
};

const WAKE: &str = "poorwill: wake ";

/// The machine in errors.
const WHAT: &str = "Linux without domains";

/// The machine without domains.
pub(super) struct Alone<'s> {
    setting: &'s Setting<'s>,
    machine: Machine,
    running: RunningMachine,
    disk: PathBuf,
    _folder: TempDir,
}

impl<'s> Alone<'s> {
    pub(super) fn boot(setting: &'s Setting<'s>) -> anyhow::Result<Self> {
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
        Ok(Alone {
            setting,
            machine,
            running,
            disk,
            _folder: folder,
        })
    }

    /// Sleeps with the power off.
    pub(super) fn sleep(&mut self) -> anyhow::Result<()> {
        self.running.send(b"sleep\n")?;
        let slept = wait_off(&mut self.running);
        explain(&self.running, slept, WHAT)
    }

    /// Switches the machine on, and times its wake.
    pub(super) fn wake(&mut self) -> anyhow::Result<Start> {
        self.running = (self.machine).power_on(&self.setting.qemu, PowerOn::default())?;
        self.running.fail_on(&WAKE_FAILURES);
        let woken = self.time_wake(Duration::ZERO);
        explain(&self.running, woken, WHAT)
    }

    /// Wakes the machine, which keeps its RAM powered in later sleeps.
    pub(super) fn wake_to_retain(&mut self) -> anyhow::Result<()> {
        retain(&self.disk)?;
        self.wake().map(drop)
    }

    /// Sleeps with powered RAM, and times the wake.
    pub(super) fn rest_and_wake(&mut self) -> anyhow::Result<Start> {
        let woken = self.rest();
        explain(&self.running, woken, WHAT)
    }

    fn rest(&mut self) -> anyhow::Result<Start> {
        self.running.send(b"sleep\n")?;
        self.running
            .wait_for("poorwill: sleep mode=retain", LIMIT)?;
        self.running.run_for(SLEEP)?;
        let since = self.running.elapsed();
        // A key wakes the machine. The guest's shell ignores a space before a command.
        self.running.send(b" ")?;
        self.time_wake(since)
    }

    fn time_wake(&mut self, since: Duration) -> anyhow::Result<Start> {
        let line = self.running.wait_for(WAKE, LIMIT)?;
        let own_ms = field(&line, WAKE, "ms")?;
        time_answer(&mut self.running, &line, own_ms, since)
    }
}
