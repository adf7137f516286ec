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
use poorwill_machine::qmp::{Control, socket_arguments, socket_folder};
use poorwill_machine::size::Bytes;
use poorwill_machine::{Machine, PowerOn, RunningMachine, tree as of_qemu};
use poorwill_plugin::log::Entry;
use tempfile::TempDir;

use super::entries::{Entries, TRAPS, entries};
use super::growing::Growing;
use super::steady::{Beat, CHIP, CHIP_BYTES, FRAME, HART, beats};
use crate::domains::Sockets;
use crate::instant::symbol;
use crate::plan::{Bus, Critical as Settings, Domain, Role};
use crate::setup::found;
use crate::{Setup, frames, wait_for};

/// Limit of each wait.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

/// Time between two looks at the log, which is written meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The firmware's function that enters a woken OS.
pub(super) const TO_OS: &str = "enter_supervisor";

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
        Self::start(setup, Domain::Hostile(role), critical)
    }

    /// Starts the critical guest beside another domain.
    pub(super) fn start(setup: &Setup, other: Domain, critical: Critical) -> anyhow::Result<Self> {
        let (qemu, firmware) = (found(&setup.qemu)?, found(&setup.firmware)?);
        let own = Settings {
            wake_after_ms: critical.waker.after_ms(),
            load_us: critical.load_us,
        };
        let sockets = Sockets {
            setup,
            domains: &[other, Domain::Critical(own)],
            bus: &Bus::default(),
            harts: 2,
            memory: Bytes::mib(256),
        };
        let folder = socket_folder()?;
        let at = |name: &str| folder.path().join(name);
        let mut machine = sockets.machine(qemu, firmware, folder.path(), folder.path())?;
        let source = sockets.source();
        if !source.is_empty() {
            of_qemu::write(&machine, qemu, &source, &at("tree"))?;
            machine.add("-dtb", at("tree"));
        }
        (machine.extra_arguments).extend(socket_arguments(&at("qmp")));
        let to_os = symbol(firmware, TO_OS)?;
        add_plugin(&mut machine, found(&setup.plugin)?, &at("log"), to_os);
        machine.add("-D", at("trace"));
        machine.add("-trace", TRAPS);
        if critical.is_traced {
            machine.add("-trace", frames::WRITES);
        }
        let mut running = machine.power_on(qemu, PowerOn::default())?;
        running.fail_on(&["FAIL", "panic on hart", "cannot start"]);
        let control = Control::connect(&at("qmp"), LIMIT)?;
        let line = UnixStream::connect(at("trigger"))?;
        wait_for(&mut running, "critical: start ", LIMIT)?;
        Ok(Together {
            running,
            control,
            line,
            critical,
            log: Growing::open(&at("log"))?,
            sent: 0,
            trace: Growing::open(&at("trace"))?,
            parts: Vec::new(),
            folder,
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

/// Adds the fair time base, and a log of the CAN chip's registers and of wakes of an OS.
pub(super) fn add_plugin(machine: &mut Machine, plugin: &Path, log: &Path, to_os: u64) {
    let (plugin, log, end) = (plugin.display(), log.display(), CHIP + CHIP_BYTES);
    machine.add("-accel", "tcg,thread=single");
    machine.add("-seed", "7");
    machine.add("-rtc", "base=2026-01-01,clock=vm");
    let plugin =
        format!("{plugin},grace=0,log={log},log-stores={CHIP:#x}-{end:#x},log-pc={to_os:#x}");
    machine.add("-plugin", plugin);
}
