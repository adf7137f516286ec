//! The machine with domains: Linux on the first socket, the critical guest on the second one.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use poorwill_machine::console::FAILURES;
use poorwill_machine::disk::NewDisk;
use poorwill_machine::domains::frames::WRITES;
use poorwill_machine::domains::{DomainOnQemu, Domains as OnQemu, Sleep};
use poorwill_machine::qmp::socket_folder;
use poorwill_machine::size::Bytes;
use poorwill_machine::{Disk, Machine, PowerOn, RunningMachine, interrupt};
use tempfile::TempDir;

use super::figures::Start;
use super::frames::{Bus, Frame, now};
use super::setting::{
    AREA, BOOT_LIMIT, LIMIT, MEMORY, READY, SLEEP, Setting, WAKE_FAILURES, command_line, explain,
    field, make, retain, time_answer, wait_off,
};
use crate::compare::guest::{REDIS, ms};

/// Time between two looks at the trace.
const TICK: Duration = Duration::from_millis(10);

/// The reports of the domains, in the order of their wakes.
const WAKES: [&str; 2] = [
    "poorwill: wake domain=critical ",
    "poorwill: wake domain=linux ",
];

/// Memory that the critical guest uses.
const USED: Bytes = Bytes::mib(16);

/// The critical guest's line in errors.
const LINE: &str = "the trigger's line";

/// The machine in errors.
const WHAT: &str = "the machine with domains";

/// The machine with domains.
pub(super) struct Together<'s> {
    setting: &'s Setting<'s>,
    machine: Machine,
    running: RunningMachine,
    /// The power-on, in time since 1970.
    since: Duration,
    bus: Bus,
    /// The critical guest's line.
    trigger: PathBuf,
    sleep_disk: PathBuf,
    /// The folders of all files.
    _folders: [TempDir; 2],
}

impl<'s> Together<'s> {
    /// Boots the machine, and times it.
    pub(super) fn boot(setting: &'s Setting<'s>) -> anyhow::Result<(Self, Start)> {
        let folder = tempfile::tempdir_in(&setting.options.folder)?;
        let sockets = socket_folder()?;
        let trigger = sockets.path().join("trigger");
        let trace = folder.path().join("trace");
        let sleep_disk = folder.path().join("sleep.disk");
        let mut machine = machine(setting, folder.path(), &trigger, &sleep_disk)?;
        machine.add("-msg", "timestamp=on");
        machine.add("-trace", WRITES);
        machine.add("-D", &trace);
        let since = now();
        let mut running = machine.power_on(&setting.qemu, PowerOn::default())?;
        running.fail_on(&FAILURES);
        let mut together = Together {
            setting,
            machine,
            running,
            since,
            bus: Bus::new(&trace),
            trigger,
            sleep_disk,
            _folders: [folder, sockets],
        };
        let booted = together.time_boot();
        let start = together.explain(booted)?;
        Ok((together, start))
    }

    fn time_boot(&mut self) -> anyhow::Result<Start> {
        let released = (self.running).wait_for("poorwill: domain critical: starts", BOOT_LIMIT)?;
        let loaded = (self.running).wait_for("poorwill: domain linux: starts", BOOT_LIMIT)?;
        let first = first_frame(&mut self.bus)?;
        let redis = self.running.wait_for(REDIS, BOOT_LIMIT)?;
        self.running.wait_for(READY, BOOT_LIMIT)?;
        Ok(Start {
            began_ms: None,
            released_ms: Some(ms(released.at)),
            first_frame_ms: Some(ms(first.at.saturating_sub(self.since))),
            loaded_ms: Some(ms(loaded.at)),
            answer_ms: ms(redis.at),
        })
    }

    /// Sleeps with the power off.
    pub(super) fn sleep(&mut self) -> anyhow::Result<()> {
        let slept = self.save();
        self.explain(slept)
    }

    fn save(&mut self) -> anyhow::Result<()> {
        let _line = self.ask_for_sleep()?;
        wait_off(&mut self.running)?;
        self.bus.power_off()
    }

    /// Switches the machine on, and times its wake.
    pub(super) fn wake(&mut self) -> anyhow::Result<Start> {
        self.since = now();
        self.running = (self.machine).power_on(&self.setting.qemu, PowerOn::default())?;
        self.running.fail_on(&WAKE_FAILURES);
        let woken = self.time_wake(self.since, Duration::ZERO);
        self.explain(woken)
    }

    /// Wakes the machine, which keeps its RAM powered in later sleeps.
    pub(super) fn wake_to_retain(&mut self) -> anyhow::Result<()> {
        retain(&self.sleep_disk)?;
        self.wake().map(drop)
    }

    /// Sleeps with powered RAM, and times the wake.
    pub(super) fn rest_and_wake(&mut self) -> anyhow::Result<Start> {
        let woken = self.rest();
        self.explain(woken)
    }

    fn rest(&mut self) -> anyhow::Result<Start> {
        let mut trigger = self.ask_for_sleep()?;
        (self.running).wait_for("poorwill: sleep mode=retain", LIMIT)?;
        self.running.run_for(SLEEP)?;
        self.bus.new_frames()?;
        let (woken, of_running) = (now(), self.running.elapsed());
        trigger.write_all(b"w").context(LINE)?;
        self.time_wake(woken, of_running)
    }

    /// Ends the machine, and returns the number of frames.
    pub(super) fn end(mut self) -> anyhow::Result<usize> {
        self.running.kill()?;
        self.bus.new_frames()?;
        Ok(self.bus.count())
    }

    /// Sends Linux to sleep, and then the machine. Returns the critical guest's line, whose end
    /// might overtake the byte.
    fn ask_for_sleep(&mut self) -> anyhow::Result<UnixStream> {
        self.running.send(b"sleep\n")?;
        (self.running).wait_for("poorwill: park domain=linux", LIMIT)?;
        let mut trigger = UnixStream::connect(&self.trigger).context(LINE)?;
        trigger.write_all(b"s").context(LINE)?;
        Ok(trigger)
    }

    /// Times a wake since an instant, in time since 1970 and in QEMU's.
    fn time_wake(&mut self, since: Duration, of_running: Duration) -> anyhow::Result<Start> {
        let critical = self.running.wait_for(WAKES[0], LIMIT)?;
        let linux = self.running.wait_for(WAKES[1], LIMIT)?;
        let critical_ms = field(&critical, WAKES[0], "us")? / 1000.0;
        let linux_ms = field(&linux, WAKES[1], "us")? / 1000.0;
        let start = time_answer(&mut self.running, &linux, linux_ms, of_running)?;
        let first = first_frame(&mut self.bus)?;
        Ok(Start {
            released_ms: start.began_ms.map(|began| began + critical_ms),
            first_frame_ms: Some(ms(first.at.saturating_sub(since))),
            ..start
        })
    }

    fn explain<T>(&self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        explain(&self.running, outcome, WHAT)
    }
}

fn machine(
    setting: &Setting<'_>,
    folder: &Path,
    trigger: &Path,
    sleep_disk: &Path,
) -> anyhow::Result<Machine> {
    let disk = folder.join("together.disk");
    make(&setting.root(), &disk)?;
    let areas = vec![AREA];
    let new = NewDisk {
        areas,
        ..NewDisk::default()
    };
    make(&new, sleep_disk)?;
    let linux = DomainOnQemu {
        name: "linux".into(),
        wake_order: 2,
        kernel: Some(setting.guest.kernel.clone()),
        initrd: Some(setting.guest.initrd.clone()),
        append: command_line(),
        disks: vec![disk],
        ..DomainOnQemu::default()
    };
    let critical = DomainOnQemu {
        name: "critical".into(),
        wake_order: 1,
        uses: Some(USED),
        critical: Some(setting.options.critical.clone()),
        trigger: Some(trigger.to_owned()),
        may_sleep: true,
        ..DomainOnQemu::default()
    };
    let domains = OnQemu {
        memory: MEMORY,
        harts: setting.options.harts,
        sleep: Some(Sleep::Nvme(Disk::nvme(sleep_disk))),
        domains: vec![linux, critical],
    };
    Ok(domains
        .machine(&setting.qemu, &[], &setting.options.firmware, folder)?
        .0)
}

/// Waits for the first frame since the last look at the bus.
fn first_frame(bus: &mut Bus) -> anyhow::Result<Frame> {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(frame) = bus.new_frames()?.first() {
            return Ok(*frame);
        }
        interrupt::check()?;
        if Instant::now() > until {
            bail!("no frame on the CAN bus in {LIMIT:?}");
        }
        std::thread::sleep(TICK);
    }
}
