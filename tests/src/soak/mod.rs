//! The power is cut, again and again, while a machine sleeps and wakes.
//!
//! The test kernel's case `endure` sleeps in an endless loop. Each power-on ends
//! with QEMU killed at a moment chosen at random, or is left alone until the
//! machine is asleep. A [`Judge`] follows what the console says over all of them.

mod judge;
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
use crate::evidence::evidence;
use judge::{End, Judge, Medium, Tally};
use sign::{Phase, Sign};

/// A machine to be cut, with all that a power-on of it needs.
#[derive(Debug)]
pub(crate) struct Soak<'a> {
    pub(crate) machine: Machine,
    pub(crate) qemu: &'a Qemu,
    pub(crate) disks: &'a [TrialDisk],
    /// What else the machine keeps without power.
    pub(crate) files: Vec<PathBuf>,
    /// Where the console is logged, and disks are kept.
    pub(crate) folder: &'a Path,
    /// How long a power-on may last.
    pub(crate) limit: Duration,
    /// QEMU's CPU time is added to this.
    pub(crate) cpu_time: CpuTime,
}

/// When the power is cut.
#[derive(Clone, Copy, Debug)]
struct Cut {
    aim: Aim,
    /// So far into the aim's stretch of time: 0 its begin, 1 its usual end.
    part: f64,
}

/// What a cut is aimed at. It may come late and hit what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    Phase(Phase),
    /// The end of the start, where the image is marked consumed.
    Consume,
}

/// One of each, in random order, and then again: so all are hit about equally.
const AIMS: [Aim; 6] = [
    Aim::Phase(Phase::Start),
    Aim::Consume,
    Aim::Phase(Phase::Load),
    Aim::Phase(Phase::Run),
    Aim::Phase(Phase::Save),
    Aim::Phase(Phase::Commit),
];

/// How long a phase is taken to last before one has been seen.
const GUESS: Duration = Duration::from_millis(200);

/// The longest wait before looking for Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

impl Soak<'_> {
    /// Cuts the power `cuts` times; returns what was counted.
    ///
    /// # Errors
    ///
    /// What the machine did that it must not, and at which power-on.
    pub(crate) fn run(&self, cuts: u32, seed: u64) -> anyhow::Result<String> {
        let mut run = Run {
            soak: self,
            random: Rng::with_seed(seed),
            judge: Judge::new(),
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
    /// How long each phase lasted when it was last seen whole.
    usual: BTreeMap<Phase, Duration>,
}

impl Run<'_> {
    fn all(&mut self, cuts: u32) -> anyhow::Result<()> {
        // Asleep, then woken and asleep: after these every phase has its length.
        self.power_on(None)?;
        self.power_on(None)?;
        let mut aims = Vec::new();
        while self.judge.tally.cuts.values().sum::<u32>() < cuts {
            let aim = aims.pop().unwrap_or_else(|| {
                aims = AIMS.to_vec();
                self.random.shuffle(&mut aims);
                aims.pop().expect("there are several")
            });
            let part = self.random.f64();
            if self.wants_image(aim) && !matches!(self.judge.medium(), Medium::Holds(_)) {
                self.power_on(None)?;
            }
            self.power_on(Some(Cut { aim, part }))?;
        }
        // After the last cut, too, a sleep and a wake must work.
        self.power_on(None)?;
        self.power_on(None)?;
        ensure!(
            matches!(self.judge.medium(), Medium::Holds(_)),
            "the last power-on did not end asleep"
        );
        Ok(())
    }

    /// Whether a cut with this aim is for a machine that will wake. Some of those
    /// that could do without meet a cold boot.
    fn wants_image(&mut self, aim: Aim) -> bool {
        match aim {
            Aim::Phase(Phase::Load) => true,
            Aim::Phase(Phase::Start) | Aim::Consume => self.random.u8(0..4) != 0,
            Aim::Phase(_) => false,
        }
    }

    /// Switches the machine on, and cuts its power, or lets it fall asleep.
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
        let (sender, signs) = channel();
        let watch = Box::new(move |event: &_| {
            if let Some(sign) = Sign::of(event) {
                // Nobody listens any more only where the trial has failed.
                let _ = sender.send((sign, Instant::now()));
            }
        });
        let options = Switch {
            log: Some(log.clone()),
            watch: Some(watch),
            cpu_time: soak.cpu_time.clone(),
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

    /// Reads the console until the power is cut or the machine ends by itself.
    fn follow(
        &mut self,
        running: &mut RunningMachine,
        signs: &Receiver<(Sign, Instant)>,
        cut: Option<Cut>,
    ) -> anyhow::Result<(Vec<Sign>, End)> {
        let began = Instant::now();
        let hung = began + self.soak.limit;
        let mut seen = Vec::new();
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
                "it hangs: {:?} since {:?}",
                phase.0,
                seen.last()
            );
            let until = moment.unwrap_or(hung).min(now + TICK);
            match signs.recv_timeout(until.saturating_duration_since(now)) {
                Ok((sign, at)) => {
                    let next = Phase::of(&sign);
                    if next != phase.0 {
                        self.usual.insert(phase.0, at.duration_since(phase.1));
                        phase = (next, at);
                        moment = moment.or_else(|| self.moment(cut?, phase));
                    }
                    seen.push(sign);
                }
                Err(RecvTimeoutError::Timeout) => {}
                // QEMU has ended, or is about to.
                Err(RecvTimeoutError::Disconnected) => break running.wait_exit(self.soak.limit)?,
            }
        };
        // The console is read to its end now.
        seen.extend(signs.iter().map(|(sign, _)| sign));
        let end = match (exit.status.code(), exit.status.signal()) {
            (None, Some(KILLED)) if moment.is_some() => End::Cut,
            (Some(0), _) => End::Off,
            _ => End::Other(format!("{} {}", exit.status, exit.errors.trim_end())),
        };
        Ok((seen, end))
    }

    /// When to cut, once the phase is there that the cut is aimed at.
    fn moment(&self, cut: Cut, (phase, since): (Phase, Instant)) -> Option<Instant> {
        let (aim, from, to) = match cut.aim {
            // A bit beyond the usual length, as no two power-ons are alike.
            Aim::Phase(aim) => (aim, 0.0, 1.1),
            Aim::Consume => (Phase::Start, 0.6, 1.1),
        };
        let usual = self.usual.get(&aim).copied().unwrap_or(GUESS);
        (aim == phase).then(|| since + usual.mul_f64(from + (to - from) * cut.part))
    }
}

/// `SIGKILL`
const KILLED: i32 = 9;

/// Adds a line to the console's log.
fn note(log: &Path, text: &str) -> anyhow::Result<()> {
    let mut file = File::options().create(true).append(true).open(log)?;
    Ok(writeln!(file, "{text}")?)
}

/// Keeps a disk or another file as it is before a power-on, for whoever looks into a failure.
fn keep_copy(file: &Path) -> anyhow::Result<()> {
    let copy = file.with_extension("before");
    // It knows how to copy what a sparse file has, and where a file system can
    // share blocks.
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
        for (index, phase) in Phase::ALL.iter().enumerate() {
            let count = self.cuts.get(phase).copied().unwrap_or(0);
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
