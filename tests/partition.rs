//! `cargo test -p poorwill-tests --test partition`: stock Linux kernels as domains, beside the
//! critical guest, which is the master. With `POORWILL_WAKES=100` that many sleeps, and ten ends of
//! Linux of each kind.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::domains::{DomainOnQemu, Domains};
use poorwill_machine::paths::{Kernel, Tiny};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::size::Bytes;
use poorwill_machine::{PowerOn, Qemu, RunningMachine};
use poorwill_tests::{frames, number, suite, wait_for};
use tempfile::TempDir;

/// Limit of each wait.
const LIMIT: Duration = Duration::from_secs(120);

/// Sleeps of a machine, and ends of Linux of each kind, unless `POORWILL_WAKES` gives another number.
const SLEEPS: usize = 3;
const ENDS: usize = 1;
const LONG_ENDS: usize = 10;

/// The critical guest's timer ends each sleep.
const WAKE_AFTER_MS: u32 = 300;

/// Bytes of Linux's disk.
const DISK: u64 = 64 << 20;

const COMMAND_LINE: &str = "console=ttyS0 panic=1 quiet";

/// Looks at the firmware's log: it has lines about this domain, and none about the other one.
const LOG: &str = "L=/proc/device-tree/chosen/poorwill,log; \
    test $(grep -c 'domain linux0' $L) -gt 2 && ! grep -q critical $L; echo private=$?";

/// The second Linux has no UART. It parks once by itself, checks its memory, and shuts down.
const SECOND: &str = "earlycon=sbi keep_bootcon panic=1 quiet poorwill.cycles=1";

fn main() -> anyhow::Result<()> {
    suite("partition", |setup| &setup.critical, run_all)
}

fn run_all(qemu: &Qemu, firmware: &Path, critical: &Path) -> anyhow::Result<()> {
    let (sleeps, ends) = match number("POORWILL_WAKES")? {
        Some(wakes) => (wakes, LONG_ENDS),
        None => (SLEEPS, ENDS),
    };
    let parts = Parts {
        qemu,
        firmware,
        critical,
    };
    let row = |name: &str, outcome: anyhow::Result<()>| {
        outcome.with_context(|| format!("test partition, {name}"))?;
        println!("test partition, {name} ... ok");
        anyhow::Ok(())
    };
    row("Linux sleeps and wakes with its disk", parts.sleeps(sleeps))?;
    for (name, command, reason) in [
        ("Linux reboots", "reboot -f", "its OS asks for a reboot"),
        ("Linux shuts down", "poweroff -f", "its OS has shut down"),
        (
            "Linux panics",
            "echo c > /proc/sysrq-trigger",
            "its OS asks for a reboot",
        ),
    ] {
        let mut all = (0..ends).map(|_| parts.ends(command, reason));
        row(name, all.try_for_each(|outcome| outcome))?;
    }
    row("two Linux kernels sleep, and one ends", parts.two())
}

/// The parts of the machines.
struct Parts<'a> {
    qemu: &'a Qemu,
    firmware: &'a Path,
    critical: &'a Path,
}

/// A running machine, the line that triggers its sleep, and its files.
struct Running {
    machine: RunningMachine,
    trigger: UnixStream,
    folder: TempDir,
}

impl Parts<'_> {
    /// A machine with the critical guest and these command lines' Linux kernels. The first one has
    /// a disk.
    fn power_on(&self, command_lines: &[&str]) -> anyhow::Result<Running> {
        let folder = socket_folder()?;
        let at = |name: &str| folder.path().join(name);
        fs::File::create(at("disk"))?.set_len(DISK)?;
        let tiny = Tiny::find(Kernel::Stock)?;
        let mut domains: Vec<_> = (0..)
            .zip(command_lines)
            .map(|(number, append)| DomainOnQemu {
                name: format!("linux{number}"),
                wake_order: number + 2,
                kernel: Some(tiny.kernel.clone()),
                initrd: Some(tiny.initrd.clone()),
                append: (*append).to_owned(),
                // The second one's memory is at no multiple of its size.
                memory: (number == 1).then_some(Bytes::mib(512)),
                harts: (number == 1).then_some(1),
                ..DomainOnQemu::default()
            })
            .collect();
        domains[0].disks.push(at("disk"));
        domains.push(DomainOnQemu {
            name: "critical".into(),
            wake_order: 1,
            critical: Some(self.critical.to_owned()),
            trigger: Some(at("trigger")),
            wake_after_ms: Some(WAKE_AFTER_MS),
            may_sleep: true,
            ..DomainOnQemu::default()
        });
        let domains = Domains {
            memory: Bytes::mib(256),
            harts: 2,
            domains,
        };
        let (mut machine, _) = domains.machine(self.qemu, &[], self.firmware, folder.path())?;
        machine.add("-trace", frames::WRITES);
        machine.add("-D", at("trace"));
        let mut machine = machine.power_on(self.qemu, PowerOn::default())?;
        machine.fail_on(&["FAIL", "panic on hart", "cannot start", "Oops"]);
        machine.wait_for("critical: start ", LIMIT)?;
        machine.wait_for("Start it again", LIMIT)?;
        let trigger = UnixStream::connect(at("trigger"))?;
        Ok(Running {
            machine,
            trigger,
            folder,
        })
    }

    /// Linux sleeps and wakes; its disk and its memory keep their contents.
    fn sleeps(&self, sleeps: usize) -> anyhow::Result<()> {
        let mut running = self.power_on(&[COMMAND_LINE])?;
        running.command(
            "dd if=/dev/urandom of=/tmp/own bs=1M count=8 2>/dev/null; \
             dd if=/tmp/own of=/dev/nvme0n1 bs=1M oflag=direct 2>/dev/null; echo written=$?",
        )?;
        running.wait_for("written=0")?;
        for number in 1..=sleeps {
            running.command(&format!(
                "echo mem > /sys/power/state; \
                 dd if=/dev/nvme0n1 bs=1M count=8 iflag=direct 2>/dev/null | cmp - /tmp/own; \
                 echo same=$? number={number}"
            ))?;
            running.wait_for("park domain=linux0")?;
            running.sleep_and_wake(&["critical", "linux0"])?;
            running.wait_for(&format!("same=0 number={number}"))?;
            if number == 1 {
                running.command(LOG)?;
                running.wait_for("private=0")?;
            }
            if number % 50 == 0 {
                println!("partition: {number} of {sleeps} wakes");
            }
        }
        running.end(sleeps)
    }

    /// Linux ends by a command, and the machine sleeps and wakes without it.
    fn ends(&self, command: &str, reason: &str) -> anyhow::Result<()> {
        let mut running = self.power_on(&[COMMAND_LINE])?;
        running.command(command)?;
        running.wait_for(&format!("domain linux0 ends: {reason}"))?;
        for _ in 0..2 {
            running.sleep_and_wake(&["critical"])?;
        }
        running.end(2)
    }

    /// Two kernels sleep; after the wake the second one finds its memory as it was, and ends.
    fn two(&self) -> anyhow::Result<()> {
        let mut running = self.power_on(&[COMMAND_LINE, SECOND])?;
        running.command("echo mem > /sys/power/state; echo awake=$?")?;
        running.wait_for("park domain=linux0")?;
        // The second one may have parked before the first one was ready.
        let second = "park domain=linux1";
        let lines = running.machine.lines();
        if !lines.iter().any(|line| line.text.contains(second)) {
            running.wait_for(second)?;
        }
        running.sleep_and_wake(&["critical", "linux0", "linux1"])?;
        running.wait_for("domain linux1 ends")?;
        running.end(1)
    }
}

impl Running {
    fn command(&mut self, command: &str) -> anyhow::Result<()> {
        self.machine.send(format!("{command}\n").as_bytes())?;
        Ok(())
    }

    /// Puts the machine to sleep, and waits for the wakes of the domains in their order.
    fn sleep_and_wake(&mut self, domains: &[&str]) -> anyhow::Result<()> {
        self.machine.run_for(Duration::from_millis(200))?;
        self.trigger.write_all(b"s")?;
        self.wait_for("poorwill: sleep mode=retain")?;
        for domain in domains {
            self.wait_for(&format!(
                "poorwill: wake domain={domain} mode=retain source=timer"
            ))?;
        }
        Ok(())
    }

    /// Waits for a console line; an error has the console's end.
    fn wait_for(&mut self, line: &str) -> anyhow::Result<()> {
        wait_for(&mut self.machine, line, LIMIT).map(drop)
    }

    /// Ends the machine, and checks the frames' numbers. The host's load delays heartbeats here, so
    /// their times are not checked.
    fn end(mut self, wakes: usize) -> anyhow::Result<()> {
        self.machine.run_for(Duration::from_millis(300))?;
        self.machine.kill()?;
        let frames = frames::frames(&fs::read_to_string(self.folder.path().join("trace"))?)?;
        for (number, frame) in (0..).zip(&frames) {
            ensure!(
                frame.sequence == number,
                "frame {number} has the number {}: one is lost or repeated",
                frame.sequence
            );
        }
        ensure!(!frames.is_empty(), "the trace has no frame");
        println!("partition: {} frames, {wakes} wakes", frames.len());
        Ok(())
    }
}
