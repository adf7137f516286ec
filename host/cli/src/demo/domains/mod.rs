//! `poorwill demo domains`: a critical guest on a CAN bus and a stock Linux share a machine, sleep
//! together, and wake in their order.

mod bus;
mod figures;

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use poorwill_machine::console::{Event, FAILURES, Line};
use poorwill_machine::domains::frames::WRITES;
use poorwill_machine::domains::{DomainOnQemu, Domains};
use poorwill_machine::paths::{Kernel, Tiny};
use poorwill_machine::size::Bytes;
use poorwill_machine::{Machine, PowerOn, Qemu, RunningMachine, TINY_COMMAND_LINE, Watcher};

use self::bus::Bus;
use self::figures::Start;
use super::machine::explain;
use super::screen::Screen;
use crate::domains::checked_machine;
use poorwill_bench::domains::frames::now;

pub(crate) use figures::DomainsFigures;

/// Longer than a slow host needs; a machine that hangs ends the demo.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(120);

/// How long the machine works, and how long it sleeps.
const WORK: Duration = Duration::from_millis(1500);
const SLEEP: Duration = Duration::from_millis(1500);

/// Linux's disk, and the bytes that it writes there.
const DISK: Bytes = Bytes::mib(16);

/// Linux's first answer after a sleep. Both domains write to one UART after a wake, so a line may
/// have a letter of the other one in it: the answer comes three times.
const AWAKE: &str = "A=$?; for i in 1 2 3; do echo awake=$A; sleep 0.2; done";
const AWAKE_ANSWER: &str = "awake=0";

/// Prints the digest of a file in memory, and compares it with the one on the disk.
const ANSWER: &str = "cmp -n 4194304 /tmp/own /dev/nvme0n1 && echo digest=$(md5sum </tmp/own)";
const DIGEST: &str = "digest=";

/// Options of the demo.
#[derive(Clone, Debug)]
pub(crate) struct DomainsOptions {
    /// RAM and harts of each domain.
    pub(crate) memory: Bytes,
    pub(crate) harts: u32,
    /// Number of sleeps.
    pub(crate) sleeps: u32,
    pub(crate) firmware: PathBuf,
    /// The critical guest's program.
    pub(crate) critical: PathBuf,
    /// Folder for the machine's files. The caller removes it.
    pub(crate) folder: PathBuf,
    /// File for a copy of the console's output.
    pub(crate) log: PathBuf,
}

/// Runs the demo, and returns its figures. An error names its step. The machine is then off, and
/// its last console lines are on the screen.
pub(crate) fn sleep_together(
    options: &DomainsOptions,
    screen: &Screen,
) -> anyhow::Result<DomainsFigures> {
    let qemu = Qemu::find()?;
    let (trigger, trace) = (options.folder.join("trigger"), options.folder.join("trace"));
    let machine = machine(options, &qemu, &trigger, &trace)?;
    let DomainsOptions { harts, memory, .. } = options;
    screen.step(&format!(
        "Cold boot: a critical guest and a stock Linux, each with {harts} harts and {memory} of RAM"
    ));
    screen.row(Duration::ZERO, "the CAN bus", "the console");
    let power_on = now();
    let watch = PowerOn {
        log: Some(options.log.clone()),
        watch: Some(watcher(screen)),
        ..PowerOn::default()
    };
    let mut running = machine.power_on(&qemu, watch)?;
    let failures: Vec<_> = FAILURES.into_iter().chain([" ends: "]).collect();
    running.fail_on(&failures);
    let mut stage = Stage {
        screen,
        bus: Bus::follow(&trace, power_on, screen),
        power_on,
        running: &mut running,
    };
    let outcome = stage.play(&trigger, options.sleeps);
    let bus = stage.bus;
    let mut figures = explain(screen, &running, outcome)?;
    running.kill()?;
    figures.frames = bus.end()?;
    Ok(figures)
}

/// A machine with Linux on the first socket, and the critical guest on the second one.
fn machine(
    options: &DomainsOptions,
    qemu: &Qemu,
    trigger: &Path,
    trace: &Path,
) -> anyhow::Result<Machine> {
    let tiny = Tiny::find(Kernel::Stock)?;
    let disk = options.folder.join("disk");
    File::create(&disk)
        .and_then(|file| file.set_len(DISK.0))
        .with_context(|| format!("making {}", disk.display()))?;
    let linux = DomainOnQemu {
        name: "linux".into(),
        wake_order: 2,
        kernel: Some(tiny.kernel),
        initrd: Some(tiny.initrd),
        append: format!("{TINY_COMMAND_LINE} quiet"),
        disks: vec![disk],
        ..DomainOnQemu::default()
    };
    let critical = DomainOnQemu {
        name: "critical".into(),
        wake_order: 1,
        critical: Some(options.critical.clone()),
        trigger: Some(trigger.to_owned()),
        may_sleep: true,
        ..DomainOnQemu::default()
    };
    let domains = Domains {
        memory: options.memory,
        harts: options.harts,
        sleep: None,
        domains: vec![linux, critical],
    };
    let mut machine = checked_machine(&domains, qemu, &[], &options.firmware, &options.folder)?;
    machine.add("-msg", "timestamp=on");
    machine.add("-trace", WRITES);
    machine.add("-D", trace);
    Ok(machine)
}

/// A callback that shows the console in the right pane.
fn watcher(screen: &Screen) -> Watcher {
    let screen = screen.clone();
    Box::new(move |event| {
        if let Event::Line(Line { at, text }) = event
            && !text.trim().is_empty()
        {
            screen.row(*at, "", text);
        }
    })
}

struct Stage<'a> {
    screen: &'a Screen,
    bus: Bus,
    /// Time since 1970.
    power_on: Duration,
    running: &'a mut RunningMachine,
}

impl Stage<'_> {
    fn play(&mut self, trigger: &Path, sleeps: u32) -> anyhow::Result<DomainsFigures> {
        let first = self.bus.first_frame(LIMIT).context("the critical guest")?;
        let mut line = UnixStream::connect(trigger).context("the trigger's line")?;
        let shell = self.running.wait_for("Start it again", BOOT_LIMIT);
        let shell = shell.context("Linux's boot")?;
        self.command("dd if=/dev/urandom of=/tmp/own bs=1M count=4 2>/dev/null")?;
        self.command("dd if=/tmp/own of=/dev/nvme0n1 bs=1M oflag=direct 2>/dev/null")?;
        self.command(ANSWER)?;
        let digest = self.line(DIGEST)?;
        let mut figures = DomainsFigures {
            cold_boot: Start {
                first_frame: first.at.saturating_sub(self.power_on),
                answer: shell.at,
            },
            ..DomainsFigures::default()
        };
        for number in 1..=sleeps {
            self.running.run_for(WORK)?;
            self.sleep(&mut line, number, sleeps)?;
            figures.wakes.push(self.wake(&mut line)?);
            let after = self.line(DIGEST)?.text;
            ensure!(
                after == digest.text,
                "Linux's contents changed: {} before, {after} after",
                digest.text,
            );
        }
        self.running.run_for(WORK)?;
        Ok(figures)
    }

    /// Puts the machine to sleep: the critical guest asks for it until Linux is parked, too.
    fn sleep(&mut self, line: &mut UnixStream, number: u32, all: u32) -> anyhow::Result<()> {
        self.screen.step(&format!(
            "Sleep {number} of {all}: the critical guest, the master, is triggered"
        ));
        line.write_all(b"s").context("the trigger's line")?;
        let refused = "poorwill: sleep refused: domain linux is not parked";
        self.running.wait_for(refused, LIMIT)?;
        self.screen.step("Linux goes to sleep by itself");
        self.command(&format!("echo mem > /sys/power/state; {AWAKE}; {ANSWER}"))?;
        self.running
            .wait_for("poorwill: park domain=linux", LIMIT)?;
        self.running
            .wait_for("poorwill: sleep mode=retain", LIMIT)?;
        // Frames of the time before, which the trace may show late.
        self.running.run_for(SLEEP)?;
        self.bus.mark();
        self.running.run_for(SLEEP)?;
        ensure!(
            !self.bus.has_frame(),
            "a frame came while the machine slept"
        );
        Ok(())
    }

    /// Wakes the machine. Returns when the domains are back.
    fn wake(&mut self, line: &mut UnixStream) -> anyhow::Result<Start> {
        self.screen
            .step("A byte on the critical guest's line wakes the machine");
        let (since, of_running) = (now(), self.running.elapsed());
        line.write_all(b"w").context("the trigger's line")?;
        let first = self.bus.first_frame(LIMIT).context("after the wake")?;
        for domain in ["critical", "linux"] {
            let words = format!("poorwill: wake domain={domain} ");
            self.running.wait_for(&words, LIMIT)?;
        }
        let answer = self.line(AWAKE_ANSWER)?;
        let start = Start {
            first_frame: first.at.saturating_sub(since),
            answer: answer.at.saturating_sub(of_running),
        };
        self.screen.say(&format!(
            "first frame after {:.1} ms, Linux's answer after {:.1} ms",
            start.first_frame.as_secs_f64() * 1000.0,
            start.answer.as_secs_f64() * 1000.0,
        ));
        Ok(start)
    }

    fn command(&mut self, command: &str) -> anyhow::Result<()> {
        let sent = self.running.send(format!("{command}\n").as_bytes());
        sent.context("Linux's console")
    }

    /// Waits for a line of Linux that begins with `start`. The command's own begins with the prompt.
    fn line(&mut self, start: &str) -> anyhow::Result<Line> {
        let what = format!("Linux's answer {start}");
        let is_answer = |line: &str| line.starts_with(start);
        Ok(self.running.wait_where(&what, LIMIT, is_answer)?)
    }
}
