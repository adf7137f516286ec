//! The critical guest, seen from outside: its frames in QEMU's trace or in the plugin's log, and the
//! entries of machine mode on its harts.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use poorwill_critical::Heartbeat;
use poorwill_machine::domains::frames::WRITES;
use poorwill_machine::growing::Growing;
use poorwill_machine::{Machine, RunningMachine};
use poorwill_plugin::log::{Entry, What};

use super::entries::{Entries, TRAPS, entries};
use super::steady::{Beat, CHIP, CHIP_BYTES, FRAME, HART, Late, Wake, beats, wakes};
use crate::frames::{self, Sent};
use crate::instant::symbol;
use crate::plan::Frames;

/// Time between two looks at the log, which is written meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The firmware's function that enters an OS.
const TO_OS: &str = "enter_supervisor";

/// The console's lines about sleeps.
const SLEPT: &str = "poorwill: sleep mode=retain";

/// Adds a trace of register writes, which shows frames.
pub(crate) fn add_trace(machine: &mut Machine, folder: &Path) {
    machine.add("-trace", WRITES);
    machine.add("-D", folder.join("trace"));
}

/// Adds the fair time base, a log of the CAN chip's registers and of entries of an OS, and a trace of
/// traps. The time base lets no domain delay another, so that all delays are the firmware's.
pub(crate) fn add_fair(machine: &mut Machine, plugin: &Path, folder: &Path) -> anyhow::Result<()> {
    let (log, end) = (folder.join("log"), CHIP + CHIP_BYTES);
    let to_os = symbol(&machine.firmware, TO_OS)?;
    machine.add("-accel", "tcg,thread=single");
    machine.add("-seed", "7");
    machine.add("-rtc", "base=2026-01-01,clock=vm");
    let (plugin, log) = (plugin.display(), log.display());
    let plugin =
        format!("{plugin},grace=0,log={log},log-stores={CHIP:#x}-{end:#x},log-pc={to_os:#x}");
    machine.add("-plugin", plugin);
    machine.add("-trace", TRAPS);
    machine.add("-D", folder.join("trace"));
    Ok(())
}

/// A machine that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    folder: PathBuf,
    is_fair: bool,
    /// The plugin's log, and the frames in it so far.
    log: Growing,
    sent: usize,
    /// QEMU's trace.
    trace: Growing,
    parts: Vec<Part>,
}

/// A part of a machine's run.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name in the plan.
    pub name: String,
    /// Its frames.
    pub frames: Range<usize>,
    /// Entries of machine mode on the critical guest's harts.
    pub entries: Entries,
}

/// What a machine has shown.
#[derive(Debug)]
pub struct Seen {
    /// The frames of the trace, or of the log without one.
    pub frames: Vec<Heartbeat>,
    /// The frames of the log with their times.
    pub beats: Vec<Beat>,
    /// The plugin's log.
    pub log: Vec<Entry>,
    /// Entries of machine mode on the critical guest's harts.
    pub entries: Entries,
    /// Instructions from the power-on to the first frame, of a guest that has woken: the power-on is
    /// time 0, and no hart executes more instructions in a time.
    pub from_power_on: Option<u64>,
    /// The parts of the run.
    pub parts: Vec<Part>,
}

impl Watch {
    /// Watches a machine with files in `folder`, which is switched on later.
    pub(crate) fn new(folder: &Path, is_fair: bool) -> Self {
        let [log, trace] = ["log", "trace"].map(|name| folder.join(name));
        // An earlier power-on's files. There may be none.
        let _none = [&log, &trace].map(fs::remove_file);
        Watch {
            folder: folder.to_owned(),
            is_fair,
            log: Growing::new(&log),
            sent: 0,
            trace: Growing::new(&trace),
            parts: Vec::new(),
        }
    }

    /// Waits for this number of further frames. The limit is for each of them.
    pub(crate) fn wait_for_frames(
        &mut self,
        running: &mut RunningMachine,
        number: usize,
        limit: Duration,
    ) -> anyhow::Result<()> {
        ensure!(self.is_fair, "frames are counted in the fair time base");
        self.count_frames()?;
        let end = self.sent + number;
        let mut last = (self.sent, Instant::now());
        while self.sent < end {
            ensure!(
                last.1.elapsed() < limit,
                "frame {} of {end} is the last one",
                self.sent
            );
            running.run_for(LOOK_EVERY)?;
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
    pub(crate) fn end_part(&mut self, name: &str) -> anyhow::Result<()> {
        self.count_frames()?;
        let start = self.parts.last().map_or(0, |last| last.frames.end);
        self.parts.push(Part {
            name: name.to_owned(),
            frames: start..self.sent,
            entries: entries(&self.trace.read()?, HART as u64)?,
        });
        Ok(())
    }

    /// Reads the files of a machine that has ended, and checks them. The guest has sent `sent` before.
    /// It has woken at the power-on, or started.
    pub(crate) fn finish(
        self,
        wanted: &Frames,
        lines: &[&str],
        has_woken: bool,
        sent: &mut Sent,
    ) -> anyhow::Result<(Seen, String)> {
        let trace = fs::read_to_string(self.folder.join("trace"))?;
        let log = match self.is_fair {
            true => read_log(&self.folder.join("log"))?,
            false => Vec::new(),
        };
        let beats = beats(&log)?;
        let logged: Vec<_> = beats.iter().map(|beat| beat.heartbeat).collect();
        let frames = match self.is_fair && !wanted.traced {
            true => logged.clone(),
            false => frames::frames(&trace)?,
        };
        ensure!(
            !self.is_fair || frames == logged,
            "the trace and the log differ"
        );
        let first = beats.first().filter(|_| has_woken);
        let seen = Seen {
            frames,
            from_power_on: first.map(|first| first.time),
            beats,
            entries: entries(&trace, HART as u64)?,
            log,
            parts: self.parts,
        };
        let sleeps = lines.iter().filter(|line| line.contains(SLEPT)).count();
        sent.frames.extend(&seen.frames);
        sent.wakes += sleeps;
        frames::check_numbers(&sent.frames)?;
        if wanted.quiet_bus {
            frames::check_bus(&trace)?;
        }
        if wanted.stages {
            frames::check_stages(&sent.frames, sent.wakes)?;
        }
        let mut summary = format!("{} frames, {sleeps} sleeps, ", seen.frames.len());
        summary += &match self.is_fair {
            true => seen.check_fair(wanted, sleeps)?,
            false => seen.check_lateness(wanted)?,
        };
        Ok((seen, summary))
    }
}

fn read_log(file: &Path) -> anyhow::Result<Vec<Entry>> {
    let log = fs::read_to_string(file)?;
    Ok(log
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}

impl Seen {
    /// Checks the lateness that frames report.
    fn check_lateness(&self, wanted: &Frames) -> anyhow::Result<String> {
        let late = self.frames.iter().map(|frame| frame.lateness_100ns * 100);
        let late = late.max().context("no frame")?;
        if let Some(most) = wanted.late_ns {
            ensure!(
                late <= most,
                "a heartbeat is {late} ns late, at most {most}"
            );
        }
        Ok(format!("at most {late} ns late"))
    }

    /// Checks their times in the fair time base, and that machine mode entered the critical harts for
    /// their own domain alone.
    fn check_fair(&self, wanted: &Frames, sleeps: usize) -> anyhow::Result<String> {
        let Entries { calls, others, .. } = &self.entries;
        ensure!(*calls > 0, "the trace has no call: it shows no traps");
        ensure!(
            others.is_empty(),
            "the critical harts entered machine mode for others:\n{}",
            others.join("\n")
        );
        let late = Late::of(&self.beats, 0..self.beats.len())?;
        let wakes = wakes(&self.log, &self.beats)?;
        ensure!(wakes.len() == sleeps, "{} wakes of {sleeps}", wakes.len());
        let most = |figure: fn(&Wake) -> u64| wakes.iter().map(figure).max().unwrap_or(0);
        let (to_frame, to_steady) = (most(|wake| wake.to_frame), most(|wake| wake.to_steady));
        if let Some(most) = wanted.late_ns {
            ensure!(late.missed == 0, "{} heartbeats missed", late.missed);
            ensure!(
                late.beat.1 <= most,
                "{} ns late, at most {most}",
                late.beat.1
            );
        }
        let from_power_on = self.from_power_on.unwrap_or(0);
        for (name, figure, most) in [
            ("instructions to a frame", to_frame, wanted.to_frame),
            (
                "instructions from the power-on to a frame",
                from_power_on,
                wanted.from_power_on,
            ),
            ("ns to a steady rate", to_steady, wanted.to_steady_ns),
        ] {
            let most = most.unwrap_or(u64::MAX);
            ensure!(figure <= most, "a wake: {figure} {name}, at most {most}");
        }
        Ok(format!(
            "at most {} ns late, control {} us; wakes take {to_frame} instructions to a frame, \
             {from_power_on} from a power-on, {to_steady} ns to a steady rate",
            late.beat.1, late.control.1
        ))
    }

    /// Instructions of the first hart until the firmware starts an OS on it.
    pub(crate) fn to_first_os(&self) -> Option<u64> {
        self.log.iter().find_map(to_first_os)
    }
}

/// The same, if this is the entry.
fn to_first_os(entry: &Entry) -> Option<u64> {
    let is_first = entry.hart == 0 && matches!(entry.what, What::Executes { .. });
    is_first.then_some(entry.time)
}

/// The same of another machine that runs in the fair time base, whose log is in `folder`.
pub(crate) fn time_first_os(
    running: &mut RunningMachine,
    folder: &Path,
    limit: Duration,
) -> anyhow::Result<u64> {
    let mut log = Growing::new(&folder.join("log"));
    let until = Instant::now() + limit;
    loop {
        for line in log.read()?.lines() {
            if let Some(time) = to_first_os(&serde_json::from_str(line)?) {
                return Ok(time);
            }
        }
        ensure!(Instant::now() < until, "no OS after {limit:?}");
        running.run_for(LOOK_EVERY)?;
    }
}
