//! Machines of the tiny guest with a weak core.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::console::{FAILURES, Line};
use poorwill_machine::paths::Tiny;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Interrupts, Machine, PowerOn, Qemu, RunningMachine, tree};

use crate::not_measured::CONSOLE;

/// RAM of each machine.
const MEMORY: Bytes = Bytes::mib(512);

/// Time limit of each step on a slow host.
const LIMIT: Duration = Duration::from_secs(300);

/// QEMU's exit status for the guest's success.
const SUCCESS: i32 = 42;

/// Disks whose contents do not matter, and a network card without a network.
const DEVICES: [&str; 14] = [
    "-blockdev",
    "driver=null-co,node-name=n,size=67108864,read-zeroes=on",
    "-device",
    "nvme,drive=n,serial=n",
    "-blockdev",
    "driver=null-co,node-name=s,size=67108864,read-zeroes=on",
    "-device",
    "ich9-ahci,id=sata",
    "-device",
    "ide-hd,bus=sata.0,drive=s",
    "-device",
    "e1000e,romfile=",
    "-nic",
    "none",
];

/// A machine with a weak core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    /// Harts of the OS.
    pub(super) harts: u32,
    pub(super) has_devices: bool,
    /// The weak core runs the halves.
    pub(super) is_on: bool,
}

/// What all machines share.
pub(super) struct Setting<'s> {
    pub(super) firmware: &'s Path,
    pub(super) folder: &'s Path,
    pub(super) qemu: Qemu,
    pub(super) guest: Tiny,
}

impl Setting<'_> {
    /// The machine, with the file of its device tree. The guest sleeps `sleeps` times.
    pub(super) fn machine(
        &self,
        subject: Subject,
        sleeps: u32,
        words: &str,
    ) -> anyhow::Result<Machine> {
        let mut machine = Machine::new(self.firmware);
        machine.interrupts = Interrupts::Plic;
        machine.harts = subject.harts + 1;
        machine.memory = MEMORY;
        machine.kernel = Some(self.guest.kernel.clone());
        machine.initrd = Some(self.guest.initrd.clone());
        machine.command_line = format!(
            "{} quiet poorwill.cycles={sleeps}{words}",
            machine.board.tiny_command_line()
        );
        if subject.has_devices {
            machine.extra_arguments.extend(DEVICES.map(Into::into));
        }
        let mut source = tree::weak_core(subject.harts);
        if !subject.is_on {
            source = source.replace("\"on\"", "\"off\"");
        }
        let file = self.folder.join("tree.dtb");
        tree::write(&machine, &self.qemu, &source, &file)?;
        machine.add("-dtb", file);
        Ok(machine)
    }

    /// The same, whose instructions take a nanosecond each.
    pub(super) fn counted(
        &self,
        subject: Subject,
        sleeps: u32,
        words: &str,
    ) -> anyhow::Result<Machine> {
        Ok(self.machine(subject, sleeps, words)?.for_counts(0))
    }
}

/// A running machine, whose guest sleeps and wakes.
pub(super) struct Sleeper(RunningMachine);

impl Sleeper {
    pub(super) fn power_on(machine: &Machine, qemu: &Qemu) -> anyhow::Result<Self> {
        let mut running = machine.power_on(qemu, PowerOn::default())?;
        running.fail_on(&FAILURES);
        Ok(Sleeper(running))
    }

    /// Waits for a line with this text.
    pub(super) fn wait_for(&mut self, text: &str) -> anyhow::Result<Line> {
        let line = self.0.wait_for(text, LIMIT);
        line.with_context(|| {
            format!(
                "waiting for {text:?}{CONSOLE}\n{}\n",
                self.0.tail(15).join("\n")
            )
        })
    }

    /// Waits until the machine sleeps.
    pub(super) fn wait_asleep(&mut self) -> anyhow::Result<()> {
        self.wait_for("poorwill: sleep mode=retain").map(drop)
    }

    /// Types on the console. A sleeping machine wakes.
    pub(super) fn send(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.0.send(text.as_bytes())?)
    }

    /// Waits until the guest has checked itself after a wake.
    pub(super) fn wait_checked(&mut self, sleep: u32) -> anyhow::Result<()> {
        self.wait_for(&format!("cycle {sleep}: ok")).map(drop)
    }

    /// The console's lines so far.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lines().into_iter().map(|line| line.text).collect()
    }

    /// Wakes the guest from all its sleeps, and returns the console's lines.
    pub(super) fn sleep(mut self, sleeps: u32) -> anyhow::Result<Vec<String>> {
        for sleep in 1..=sleeps {
            self.wait_asleep()?;
            self.send("k")?;
            self.wait_checked(sleep)?;
        }
        self.end()
    }

    /// Waits for the guest's success, and returns the console's lines.
    pub(super) fn end(mut self) -> anyhow::Result<Vec<String>> {
        let exit = self.0.wait_exit(LIMIT)?;
        ensure!(
            exit.status.code() == Some(SUCCESS),
            "the guest failed ({}){CONSOLE}\n{}\n",
            exit.status,
            self.0.tail(15).join("\n")
        );
        Ok(self.lines())
    }
}
