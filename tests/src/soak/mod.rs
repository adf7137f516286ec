//! Cuts the power repeatedly while a machine sleeps and wakes.
//!
//! The test kernel's case `endure` sleeps in an endless loop, and so do domains with the hostile
//! guest's role of this name. In each power-on QEMU is killed at a random moment, or runs until the
//! machine is asleep. A [`Judge`] follows the console over all power-ons.

mod judge;
mod phase;
mod sign;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail, ensure};
use fastrand::Rng;
use poorwill_machine::interrupt;
use poorwill_machine::{CpuTime, Machine, PowerOn as Switch, Qemu, RunningMachine};

use crate::disks::TrialDisk;
use crate::domains::Sockets;
use crate::evidence::evidence;
use judge::{End, Judge, Medium, Tally};
use phase::{Phase, Phases};
use sign::Sign;

/// A machine whose power is cut, with all that a power-on needs.
#[derive(Debug)]
pub(crate) struct Soak<'a> {
    pub(crate) machine: Machine,
    /// Its domains, if it has some.
    pub(crate) sockets: Option<Sockets<'a>>,
    pub(crate) qemu: &'a Qemu,
    pub(crate) disks: &'a [TrialDisk],
    /// Further files that the machine keeps without power.
    pub(crate) files: Vec<PathBuf>,
    /// Folder for the console's log and the disks.
    pub(crate) folder: &'a Path,
    /// Time limit of a power-on.
    pub(crate) limit: Duration,
    /// The sum to which QEMU's CPU time is added.
    pub(crate) cpu_time: CpuTime,
}

/// The moment of a power cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    aim: Aim,
    /// Position in the aim's interval: 0 is its start, 1 its usual end.
    part: f64,
}

/// The interval at which a cut is aimed. The cut may come late, and hit the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Phase(Phase),
    /// The end of the start, in which the image is marked as consumed.
    Consume,
}

/// Assumed length of a phase that was not measured yet.
const GUESS: Duration = Duration::from_millis(200);

/// The longest wait between two checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

impl Soak<'_> {
    /// Number of images on the medium of the sleeping machine.
    fn images(&self) -> usize {
        (self.sockets.as_ref()).map_or(1, |sockets| sockets.domains.len())
    }

    /// Each aim once.
    fn aims(&self) -> Vec<Aim> {
        let phases = Phase::all(self.images()).map(Aim::Phase);
        phases.chain([Aim::Consume]).collect()
    }

    /// Cuts the power `cuts` times. Returns a text with the counts.
    ///
    /// # Errors
    ///
    /// The machine violated a rule: the error names it and the power-on.
    pub(crate) fn run(&self, cuts: u32, seed: u64) -> anyhow::Result<String> {
        let mut run = Run {
            soak: self,
            random: Rng::with_seed(seed),
            judge: Judge::new(self.images()),
            usual: BTreeMap::new(),
        };
        run.all(cuts).with_context(|| {
            format!("seed {seed} (POORWILL_SEED={seed} aims the cuts in the same way)")
        })?;
        Ok(format!("{}, 0 violations, seed {seed}", run.judge.tally))
    }
}

struct Run<'a> {
    soak: &'a Soak<'a>,
    random: Rng,
    judge: Judge,
    /// Length of each phase when it was last complete.
    usual: BTreeMap<Phase, Duration>,
}

impl Run<'_> {
    fn all(&mut self, cuts: u32) -> anyhow::Result<()> {
        // A sleep, then a wake and a sleep: after these the length of each phase is known.
        self.power_on(None)?;
        self.power_on(None)?;
        let mut aims = Vec::new();
        while self.judge.tally.cuts.values().sum::<u32>() < cuts {
            // Each aim once, in random order, and again. So each is chosen equally often.
            let aim = aims.pop().unwrap_or_else(|| {
                aims = self.soak.aims();
                self.random.shuffle(&mut aims);
                aims.pop().expect("there are several")
            });
            let part = self.random.f64();
            if self.wants_image(aim) && !matches!(self.judge.medium(), Medium::Holds(_)) {
                self.power_on(None)?;
            }
            self.power_on(Some(Cut { aim, part }))?;
        }
        // After the last cut a sleep and a wake must work, too.
        self.power_on(None)?;
        self.power_on(None)?;
        ensure!(
            matches!(self.judge.medium(), Medium::Holds(_)),
            "the last power-on did not end asleep"
        );
        Ok(())
    }

    /// Whether a cut with this aim is for a machine that will wake. A cut of a start is for one in
    /// three of four cases, and for a cold boot otherwise.
    fn wants_image(&mut self, aim: Aim) -> bool {
        match aim {
            Aim::Phase(Phase::Load(_)) => true,
            Aim::Phase(Phase::Start) | Aim::Consume => self.random.u8(0..4) != 0,
            Aim::Phase(_) => false,
        }
    }

    /// Switches the machine on. Cuts its power, or waits until it is asleep.
    fn power_on(&mut self, cut: Option<Cut>) -> anyhow::Result<()> {
        let number = self.judge.tally.power_ons + 1;
        let aimed = match cut {
            None => "left alone".to_owned(),
            Some(cut) => format!("to be cut in {:?}, at {:.2} of it", cut.aim, cut.part),
        };
        let soak = self.soak;
        let log = soak.folder.join("console.log");
        note(&log, &format!("--- power-on {number}, {aimed}"))?;
        let disks = soak.disks.iter().map(|disk| &disk.file);
        disks
            .chain(&soak.files)
            .try_for_each(|file| keep_copy(file))?;
        soak.disks.iter().try_for_each(TrialDisk::switch_on)?;
        if let Some(sockets) = &soak.sockets {
            sockets.tell_life(soak.folder, number.into())?;
        }
        let (sender, signs) = channel();
        let watch = Box::new(move |event: &_| {
            for sign in Sign::of(event) {
                // The receiver is gone only if the trial has failed.
                let _ = sender.send((sign, Instant::now()));
            }
        });
        let options = Switch {
            log: Some(log.clone()),
            watch: Some(watch),
            cpu_time: soak.cpu_time.clone(),
            ..Switch::default()
        };
        let mut running = soak.machine.power_on(soak.qemu, options)?;
        let judged = self
            .follow(&mut running, &signs, cut)
            .and_then(|(signs, end)| {
                note(
                    &log,
                    &format!("--- {end:?}; the last sign: {:?}", signs.last()),
                )?;
                Ok(self.judge.power_on(&signs, &end)?)
            });
        judged.map_err(|error| {
            anyhow!(
                "power-on {number}, {aimed}: {error:#}\nbefore: {}\n{}",
                self.judge.tally,
                evidence(&running, &soak.machine, soak.qemu)
            )
        })?;
        drop(running);
        soak.disks.iter().try_for_each(TrialDisk::switch_off)
    }

    /// Reads the console until the power is cut, or the machine ends by itself.
    fn follow(
        &mut self,
        running: &mut RunningMachine,
        signs: &Receiver<(Sign, Instant)>,
        cut: Option<Cut>,
    ) -> anyhow::Result<(Vec<Sign>, End)> {
        let began = Instant::now();
        let hung = began + self.soak.limit;
        let mut seen = Vec::new();
        let mut phases = Phases::new(self.soak.images());
        let mut phase = (Phase::Start, began);
        let mut moment = cut.and_then(|cut| self.moment(cut, phase));
        let exit = loop {
            interrupt::check()?;
            let now = Instant::now();
            if moment.is_some_and(|moment| moment <= now) {
                break running.kill()?;
            }
            ensure!(
                now < hung,
                "the machine hangs: {:?} since {:?}",
                phase.0,
                seen.last()
            );
            let until = moment.unwrap_or(hung).min(now + TICK);
            match signs.recv_timeout(until.saturating_duration_since(now)) {
                Ok((sign, at)) => {
                    let next = phases.take(&sign);
                    if next != phase.0 {
                        self.usual.insert(phase.0, at.duration_since(phase.1));
                        phase = (next, at);
                        moment = moment.or_else(|| self.moment(cut?, phase));
                    }
                    seen.push(sign);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // QEMU has ended or is about to end.
                Err(RecvTimeoutError::Disconnected) => {
                    self.usual.insert(phase.0, phase.1.elapsed());
                    break running.wait_exit(self.soak.limit)?;
                }
            }
        };
        // The console is read to its end.
        seen.extend(signs.iter().map(|(sign, _)| sign));
        let end = match (exit.status.code(), exit.status.signal()) {
            (None, Some(KILLED)) if moment.is_some() => End::Cut,
            (Some(0), _) => End::Off,
            _ => End::Other(format!("{} {}", exit.status, exit.errors.trim_end())),
        };
        Ok((seen, end))
    }

    /// The time of the cut; `None`: the phase at which it is aimed has not begun.
    fn moment(&self, cut: Cut, (phase, since): (Phase, Instant)) -> Option<Instant> {
        let (aim, from, to) = match cut.aim {
            // Up to 1.1 of the usual length, since the length varies.
            Aim::Phase(aim) => (aim, 0.0, 1.1),
            Aim::Consume => (Phase::Start, 0.6, 1.1),
        };
        let usual = self.usual.get(&aim).copied().unwrap_or(GUESS);
        (aim == phase).then(|| since + usual.mul_f64(from + (to - from) * cut.part))
    }
}

/// Linux's `SIGKILL`.
const KILLED: i32 = 9;

/// Adds a line to the console's log.
fn note(log: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = File::options().create(true).append(true).open(log)?;
    Ok(writeln!(file, "{text}")?)
}

/// Copies a disk or another file before a power-on, for the analysis of a failure.
fn keep_copy(file: &Path) -> anyhow::Result<()> {
    let copy = file.with_extension("before");
    // `cp` copies the data of a sparse file only, and shares blocks if the file system can.
    let status = Command::new("cp")
        .args(["--reflink=auto", "--sparse=auto", "--"])
        .args([file, &copy])
        .status()
        .context("cp")?;
    if !status.success() {
        bail!("cp {} ended with {status}", copy.display());
    }
    Ok(())
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: u32 = self.cuts.values().sum();
        write!(f, "{} power-ons, {all} cuts (", self.power_ons)?;
        for (index, (phase, count)) in self.cuts.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{phase:?} {count}")?;
        }
        write!(
            f,
            "), {} wakes found whole and {} cut before that, {} sleeps, cold boots:",
            self.whole, self.unseen, self.slept
        )?;
        if self.cold_boots.is_empty() {
            write!(f, " none")?;
        }
        for (reason, count) in &self.cold_boots {
            write!(f, " {count} \"{reason}\"")?;
        }
        Ok(())
    }
}
