//! `poorwill demo domains`: a critical guest on a CAN bus and a stock Linux share a machine, sleep
//! together, and wake in their order. A sleep that no wake ends soon goes on with the power off.

mod bus;
mod figures;

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use indicatif::ProgressBar;
use poorwill_machine::area::{Change, configure};
use poorwill_machine::console::{Event, FAILURES, Line};
use poorwill_machine::disk::NewDisk;
use poorwill_machine::domains::frames::WRITES;
use poorwill_machine::domains::{DomainOnQemu, Domains, Sleep};
use poorwill_machine::paths::{Kernel, Tiny};
use poorwill_machine::size::Bytes;
use poorwill_machine::{Board, Disk, Machine, PowerOn, Qemu, RunningMachine, Watcher, interrupt};
use poorwill_store::SleepMode;

use self::bus::Bus;
use self::figures::Start;
use super::machine::{COLD_BOOT, explain};
use super::screen::Screen;
use crate::domains::checked_machine;
use poorwill_bench::domains::frames::{self, now};

pub(crate) use figures::DomainsFigures;

/// Longer than a slow host needs; a machine that hangs ends the demo.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(120);

/// How long the machine works, and how long it sleeps.
const WORK: Duration = Duration::from_millis(1500);
const SLEEP: Duration = Duration::from_millis(1500);

/// Time after which the machine saves itself, and switches itself off. It is longer than a sleep that
/// ends by a byte.
const DELAY: Duration = Duration::from_secs(6);

/// The machine's sleep area. Unwritten parts of the file take no space.
const AREA: Bytes = Bytes::gib(3);

/// Memory that the critical guest uses.
const CRITICAL: Bytes = Bytes::mib(16);

/// Linux's disk, and the bytes that it writes there.
const DISK: Bytes = Bytes::mib(16);

/// The critical guest's line in errors.
const LINE: &str = "the trigger's line";

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
    /// Number of sleeps with powered RAM, and then with the power off.
    pub(crate) sleeps: u32,
    pub(crate) power_offs: u32,
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
    let supply = Supply {
        options,
        screen,
        machine: &machine,
        qemu: &qemu,
        trigger: &trigger,
    };
    let mut stage = supply.switch_on(frames::Bus::new(&trace), &[])?;
    let outcome = stage.play();
    let mut figures = explain(screen, &stage.running, outcome)?;
    stage.running.kill()?;
    figures.frames = stage.bus.end()?.count();
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
    let sleep_disk = options.folder.join("sleep.disk");
    make_sleep_disk(&sleep_disk)?;
    let linux = DomainOnQemu {
        name: "linux".into(),
        wake_order: 2,
        kernel: Some(tiny.kernel),
        initrd: Some(tiny.initrd),
        append: format!("{} quiet", Board::Virt.tiny_command_line()),
        disks: vec![disk],
        ..DomainOnQemu::default()
    };
    let critical = DomainOnQemu {
        name: "critical".into(),
        wake_order: 1,
        uses: Some(CRITICAL),
        critical: Some(options.critical.clone()),
        trigger: Some(trigger.to_owned()),
        may_sleep: true,
        ..DomainOnQemu::default()
    };
    let domains = Domains {
        memory: options.memory,
        harts: options.harts,
        sleep: Some(Sleep::Nvme(Disk::nvme(sleep_disk))),
        domains: vec![linux, critical],
    };
    let mut machine = checked_machine(&domains, qemu, &[], &options.firmware, &options.folder)?;
    machine.add("-msg", "timestamp=on");
    machine.add("-trace", WRITES);
    machine.add("-D", trace);
    Ok(machine)
}

/// Makes a disk on which the machine sleeps after it has kept its RAM powered for a while.
fn make_sleep_disk(disk: &Path) -> anyhow::Result<()> {
    let new = NewDisk {
        areas: vec![AREA],
        ..NewDisk::default()
    };
    new.create(disk, false, &ProgressBar::hidden())?;
    let change = Change {
        mode: Some(SleepMode::Staged),
        stage_delay_ms: Some(u64::try_from(DELAY.as_millis())?),
        ..Change::default()
    };
    configure(disk, &change)?;
    Ok(())
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

/// What each power-on needs.
#[derive(Clone, Copy)]
struct Supply<'a> {
    options: &'a DomainsOptions,
    screen: &'a Screen,
    machine: &'a Machine,
    qemu: &'a Qemu,
    trigger: &'a Path,
}

impl<'a> Supply<'a> {
    /// Switches the machine on. A line with one of the `failures` ends a wait with an error.
    fn switch_on(self, bus: frames::Bus, failures: &[&str]) -> anyhow::Result<Stage<'a>> {
        let power_on = now();
        let watch = PowerOn {
            log: Some(self.options.log.clone()),
            watch: Some(watcher(self.screen)),
            ..PowerOn::default()
        };
        let mut running = self.machine.power_on(self.qemu, watch)?;
        running.fail_on(&[&FAILURES[..], &[" ends: "], failures].concat());
        Ok(Stage {
            bus: Bus::follow(bus, power_on, self.screen),
            supply: self,
            power_on,
            running,
        })
    }
}

/// The machine, switched on.
struct Stage<'a> {
    supply: Supply<'a>,
    bus: Bus,
    /// Time since 1970.
    power_on: Duration,
    running: RunningMachine,
}

impl Stage<'_> {
    fn play(&mut self) -> anyhow::Result<DomainsFigures> {
        let first = self.bus.first_frame(LIMIT).context("the critical guest")?;
        let shell = self.running.wait_for("Start it again", BOOT_LIMIT);
        let shell = shell.context("Linux's boot")?;
        self.command("dd if=/dev/urandom of=/tmp/own bs=1M count=4 2>/dev/null")?;
        self.command("dd if=/tmp/own of=/dev/nvme0n1 bs=1M oflag=direct 2>/dev/null")?;
        self.command(ANSWER)?;
        let digest = self.line(DIGEST)?.text;
        let mut figures = DomainsFigures {
            cold_boot: Start {
                first_frame: first.at.saturating_sub(self.power_on),
                answer: shell.at,
            },
            ..DomainsFigures::default()
        };
        let DomainsOptions {
            sleeps, power_offs, ..
        } = *self.supply.options;
        for number in 1..=sleeps + power_offs {
            self.running.run_for(WORK)?;
            let mut line = self.sleep(number, sleeps + power_offs)?;
            if number <= sleeps {
                figures.wakes.push(self.wake_by_byte(&mut line)?);
            } else {
                figures.persist_wakes.push(self.wake_by_power_on()?);
            }
            let after = self.line(DIGEST)?.text;
            ensure!(
                after == digest,
                "Linux's contents changed: {digest} before, {after} after"
            );
        }
        self.running.run_for(WORK)?;
        Ok(figures)
    }

    /// Puts the machine to sleep: the critical guest asks for it until Linux is parked, too. Returns
    /// the critical guest's line.
    fn sleep(&mut self, number: u32, all: u32) -> anyhow::Result<UnixStream> {
        let screen = self.supply.screen;
        screen.step(&format!(
            "Sleep {number} of {all}: the critical guest, the master, is triggered"
        ));
        let mut line = UnixStream::connect(self.supply.trigger).context(LINE)?;
        line.write_all(b"s").context(LINE)?;
        let refused = "poorwill: sleep refused: domain linux is not parked";
        self.running.wait_for(refused, LIMIT)?;
        screen.step("Linux goes to sleep by itself");
        self.command(&format!("echo mem > /sys/power/state; {AWAKE}; {ANSWER}"))?;
        self.running
            .wait_for("poorwill: park domain=linux", LIMIT)?;
        self.running
            .wait_for("poorwill: sleep mode=staged", LIMIT)?;
        // Frames of the time before, which the trace may show late.
        self.running.run_for(SLEEP)?;
        self.bus.mark();
        self.running.run_for(SLEEP)?;
        self.ensure_silence()?;
        Ok(line)
    }

    fn ensure_silence(&self) -> anyhow::Result<()> {
        ensure!(
            !self.bus.has_frame(),
            "a frame came while the machine slept"
        );
        Ok(())
    }

    /// Wakes the machine out of its sleep with powered RAM.
    fn wake_by_byte(&mut self, line: &mut UnixStream) -> anyhow::Result<Start> {
        self.supply
            .screen
            .step("A byte on the critical guest's line wakes the machine");
        let (since, of_running) = (now(), self.running.elapsed());
        line.write_all(b"w").context(LINE)?;
        self.time_wake(since, of_running)
    }

    /// Lets the machine switch itself off, and switches it on again.
    fn wake_by_power_on(&mut self) -> anyhow::Result<Start> {
        let Supply { screen, .. } = self.supply;
        screen.step("No wake comes: the machine saves itself, and switches itself off");
        self.running
            .wait_for("poorwill: sleep mode=persist", LIMIT)?;
        self.running.wait_exit(LIMIT)?.check()?;
        let off = Instant::now();
        self.ensure_silence()?;
        let mut bus = self.bus.end()?;
        bus.power_off()?;
        screen.say(&format!(
            "QEMU (process {}) has ended; only the disks are left",
            self.running.pid()
        ));
        thread::sleep(SLEEP);
        interrupt::check()?;
        screen.step(&format!(
            "Power on again, after {:.1} s without power: the same command line",
            off.elapsed().as_secs_f64()
        ));
        *self = self.supply.switch_on(bus, &[COLD_BOOT])?;
        self.time_wake(self.power_on, Duration::ZERO)
    }

    /// Times a wake since an instant, in time since 1970 and in QEMU's. Returns when the domains are
    /// back.
    fn time_wake(&mut self, since: Duration, of_running: Duration) -> anyhow::Result<Start> {
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
        self.supply.screen.say(&format!(
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
