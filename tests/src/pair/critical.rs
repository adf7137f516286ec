//! The critical guest on socket 1, beside the hostile guest or a Linux on socket 0. The plugin's
//! fair time base lets neither delay the other, so that all delays are the firmware's.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use poorwill_critical::Heartbeat;
use poorwill_machine::domains::critical_devices;
use poorwill_machine::qmp::{Control, socket_arguments};
use poorwill_machine::{PowerOn, RunningMachine, tree as of_qemu};
use poorwill_plugin::log::Entry;
use tempfile::TempDir;

use super::entries::{Entries, TRAPS, entries};
use super::growing::Growing;
use super::orders::Role;
use super::steady::{Beat, CHIP, CHIP_BYTES, FRAME, HART, beats};
use super::tree::{BRIDGE_DEVICE, BUS, Bus, EDU, partition};
use super::{HARTS, Pair};
use crate::instant::symbol;
use crate::{Setup, frames, wait_for};

/// Limit of each wait.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// Time between two looks at the log, which is written meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The firmware's function that enters a woken OS.
pub(super) const TO_OS: &str = "enter_supervisor";

/// The critical socket.
const SOCKET: usize = 1;

/// The example of a device tree, and its options there.
const TREE: &str = include_str!("../../../guest/critical/critical.dts");
const WAKE_AFTER: &str = "poorwill,wake-after-ms = <500>;";
const LOAD: &str = "poorwill,load-us = <0>;";

/// The event that ends a sleep of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// A byte on the critical guest's serial line.
    Serial,
    /// Its timer, after these milliseconds.
    Timer(u32),
}

impl Waker {
    pub(super) fn after_ms(self) -> Option<u32> {
        match self {
            Waker::Serial => None,
            Waker::Timer(ms) => Some(ms),
        }
    }
}

/// How the critical guest runs.
#[derive(Clone, Copy, Debug)]
pub struct Critical {
    /// What ends its sleeps.
    pub waker: Waker,
    /// Microseconds that each heartbeat works.
    pub load_us: u32,
    /// Whether QEMU traces register writes, which shows the frames a second time.
    pub is_traced: bool,
}

/// Both domains, running.
#[derive(Debug)]
pub struct Together {
    running: RunningMachine,
    control: Control,
    line: UnixStream,
    critical: Critical,
    /// The plugin's log, and the frames in it so far.
    log: Growing,
    sent: usize,
    /// QEMU's trace.
    trace: Growing,
    parts: Vec<Part>,
    folder: TempDir,
}

/// What a machine has shown from outside.
#[derive(Debug)]
pub struct Seen {
    /// The frames of the trace, or of the log without one.
    pub frames: Vec<Heartbeat>,
    /// The same frames with their times.
    pub beats: Vec<Beat>,
    /// The plugin's log.
    pub log: Vec<Entry>,
    /// Entries of machine mode on the critical guest's harts.
    pub entries: Entries,
    /// The console's lines.
    pub lines: Vec<String>,
    /// The parts of the run.
    pub parts: Vec<Part>,
}

/// A part of the machine's run.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its frames.
    pub frames: Range<usize>,
    /// Entries of machine mode on the critical guest's harts.
    pub entries: Entries,
}

impl Together {
    /// Starts both, the hostile guest in this role.
    ///
    /// # Errors
    ///
    /// A missing file, or QEMU does not start.
    pub fn power_on(setup: &Setup, role: Role, critical: Critical) -> anyhow::Result<Self> {
        let qemu = found(&setup.qemu)?;
        let firmware = found(&setup.firmware)?;
        let bus = Bus {
            devices: &[BRIDGE_DEVICE, EDU],
            ..BUS
        };
        let mut pair = Pair::new(firmware, HARTS, &bus)?;
        let attacker = role.is_attacker().then_some(0);
        pair.write_tree(qemu, &partition(attacker, &bus, HARTS, true))?;
        pair.load_hostile(0, HARTS, found(&setup.hostile)?, role)?;
        of_qemu::write_source(&source(critical)?, &pair.at("critical"))?;
        pair.load(SOCKET, &pair.at("critical"), found(&setup.critical)?);
        pair.add_devices();
        Self::start(setup, pair, critical)
    }

    /// Starts a machine whose socket 1 has the critical guest.
    pub(super) fn start(setup: &Setup, mut pair: Pair, critical: Critical) -> anyhow::Result<Self> {
        let (qemu, firmware) = (found(&setup.qemu)?, found(&setup.firmware)?);
        let control = socket_arguments(&pair.at("qmp"));
        pair.machine.extra_arguments.extend(control);
        pair.add_plugin(found(&setup.plugin)?, symbol(firmware, TO_OS)?);
        pair.add_trace(critical.is_traced);
        let mut running = pair.machine.power_on(qemu, PowerOn::default())?;
        running.fail_on(&["FAIL", "panic on hart", "cannot start"]);
        let control = Control::connect(&pair.at("qmp"), LIMIT)?;
        let line = UnixStream::connect(pair.at("trigger"))?;
        wait_for(&mut running, "critical: start ", LIMIT)?;
        Ok(Together {
            running,
            control,
            line,
            critical,
            log: Growing::open(&pair.at("log"))?,
            sent: 0,
            trace: Growing::open(&pair.at("trace"))?,
            parts: Vec::new(),
            folder: pair.folder,
        })
    }

    /// Sends the machine to sleep, and waits for its wake. `last` is the domain that wakes last.
    ///
    /// # Errors
    ///
    /// It does not sleep, or not wake.
    pub fn sleep_and_wake(&mut self, last: &str) -> anyhow::Result<()> {
        self.line.write_all(b"s")?;
        self.wait_for("poorwill: sleep mode=retain")?;
        if self.critical.waker == Waker::Serial {
            // The hart rests by then.
            self.running.run_for(LOOK_EVERY)?;
            self.line.write_all(b"w")?;
        }
        self.wait_for(&format!("poorwill: wake domain={last} mode=retain "))?;
        Ok(())
    }

    /// Types a command on the console, which is the other domain's.
    pub(super) fn type_line(&mut self, command: &str) -> anyhow::Result<()> {
        Ok(self.running.send(format!("{command}\n").as_bytes())?)
    }

    /// Waits for a console line.
    ///
    /// # Errors
    ///
    /// It does not come.
    pub fn wait_for(&mut self, text: &str) -> anyhow::Result<String> {
        Ok(wait_for(&mut self.running, text, LIMIT)?.text)
    }

    /// Waits for a console line, which may have come already.
    ///
    /// # Errors
    ///
    /// It does not come.
    pub fn has_said(&mut self, text: &str) -> anyhow::Result<()> {
        let lines = self.running.lines();
        match lines.iter().any(|line| line.text.contains(text)) {
            true => Ok(()),
            false => self.wait_for(text).map(drop),
        }
    }

    /// Waits for this number of further frames. The limit is for each of them.
    ///
    /// # Errors
    ///
    /// They do not come.
    pub fn wait_for_frames(&mut self, number: usize) -> anyhow::Result<()> {
        self.count_frames()?;
        let end = self.sent + number;
        let mut last = (self.sent, Instant::now());
        while self.sent < end {
            ensure!(
                last.1.elapsed() < LIMIT,
                "frame {} of {end} is the last one",
                self.sent
            );
            self.running.run_for(LOOK_EVERY)?;
            self.count_frames()?;
            if self.sent > last.0 {
                last = (self.sent, Instant::now());
            }
        }
        Ok(())
    }

    /// Reads on in the log.
    fn count_frames(&mut self) -> anyhow::Result<()> {
        let command = format!("\"address\":{},\"value\":1}}", CHIP + FRAME);
        self.sent += self.log.read()?.matches(&command).count();
        Ok(())
    }

    /// Ends a part of the machine's run: the next one begins.
    ///
    /// # Errors
    ///
    /// The log or the trace cannot be read.
    pub fn end_part(&mut self) -> anyhow::Result<()> {
        self.count_frames()?;
        let start = self.parts.last().map_or(0, |last| last.frames.end);
        self.parts.push(Part {
            frames: start..self.sent,
            entries: entries(&self.trace.read()?, HART as u64)?,
        });
        Ok(())
    }

    /// Ends the machine.
    ///
    /// # Errors
    ///
    /// QEMU does not end, or the files cannot be read.
    pub fn finish(mut self) -> anyhow::Result<Seen> {
        self.control.quit()?;
        self.running.wait_exit(LIMIT)?;
        let at = |name: &str| self.folder.path().join(name);
        let log = fs::read_to_string(at("log"))?;
        let log = log.lines().map(serde_json::from_str);
        let log = log.collect::<Result<Vec<Entry>, _>>()?;
        let beats = beats(&log)?;
        let trace = fs::read_to_string(at("trace"))?;
        let logged: Vec<_> = beats.iter().map(|beat| beat.heartbeat).collect();
        let frames = match self.critical.is_traced {
            true => frames::frames(&trace)?,
            false => logged.clone(),
        };
        ensure!(frames == logged, "the trace and the log differ");
        Ok(Seen {
            frames,
            beats,
            entries: entries(&trace, HART as u64)?,
            log,
            parts: self.parts,
            lines: (self.running.lines().into_iter())
                .map(|line| line.text)
                .collect(),
        })
    }
}

/// A file of the setup.
pub(super) fn found<T>(what: &Result<T, String>) -> anyhow::Result<&T> {
    what.as_ref().map_err(|what| anyhow::anyhow!("{what}"))
}

/// The source of the guest's tree.
fn source(critical: Critical) -> anyhow::Result<String> {
    let after = critical.waker.after_ms();
    let after = after.map(|ms| format!("poorwill,wake-after-ms = <{ms}>;"));
    let after = after.unwrap_or_default();
    ensure!(
        TREE.contains(WAKE_AFTER) && TREE.contains(LOAD),
        "critical.dts has changed"
    );
    let load = format!("poorwill,load-us = <{}>;", critical.load_us);
    Ok(TREE.replace(WAKE_AFTER, &after).replace(LOAD, &load))
}

impl Pair {
    /// Adds the critical guest's functions, and the socket for its serial line.
    fn add_devices(&mut self) {
        for (option, value) in critical_devices(Some(&self.at("trigger"))) {
            self.machine.add(option, value);
        }
    }

    /// Adds the fair time base, and a log of the CAN chip's registers and of wakes of an OS.
    pub(super) fn add_plugin(&mut self, plugin: &Path, to_os: u64) {
        let (plugin, log) = (plugin.display(), self.at("log"));
        let (log, end) = (log.display(), CHIP + CHIP_BYTES);
        self.machine.add("-accel", "tcg,thread=single");
        self.machine.add("-seed", "7");
        self.machine.add("-rtc", "base=2026-01-01,clock=vm");
        let plugin =
            format!("{plugin},grace=0,log={log},log-stores={CHIP:#x}-{end:#x},log-pc={to_os:#x}");
        self.machine.add("-plugin", plugin);
    }

    fn add_trace(&mut self, has_writes: bool) {
        let trace = self.at("trace");
        self.machine.add("-D", trace);
        self.machine.add("-trace", TRAPS);
        if has_writes {
            self.machine.add("-trace", frames::WRITES);
        }
    }
}
