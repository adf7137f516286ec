//! Judges from the console alone whether a machine behaves correctly when its power is cut.
//!
//! A machine has one image, or a set: an image of each domain. All domains take each step together,
//! so one step stands for the set.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::phase::{Phase, Phases};
use super::sign::{Sign, Step};

/// The allowed reasons for a cold boot. The medium has no fault, so an image is complete or absent.
/// `#` stands for each number. The second reason is for a sealed image that was committed, but is
/// not armed.
const REASONS: [&str; 2] = [
    "no image",
    "the image must not be loaded: sleep # was interrupted, or its image was used or discarded",
];

/// The text with `#` in place of each number.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if plain.ends_with('#') => {}
            '0'..='9' => plain.push('#'),
            other => plain.push(other),
        }
    }
    plain
}

/// The end of a power-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The power was cut.
    Cut,
    /// The machine switched itself off.
    Off,
    /// Any other end.
    Other(String),
}

/// The image or the set on the medium, as the console shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    /// No image.
    Empty,
    /// This image or none: the console does not show on which side of a commit or a load the power
    /// was cut.
    MayHold(Step),
    /// This image.
    Holds(Step),
}

/// A behaviour that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Violation {
    /// The machine loads an image that its area does not have.
    #[error("the machine wakes without an image")]
    WakeFromNothing,
    /// The machine, or one of its domains, woke at another sleep than the last one.
    #[error("the machine woke at {0}, but the image was of {1:?}")]
    OtherImage(Step, Option<Step>),
    /// An image woke twice.
    #[error("the machine woke at {0} twice")]
    WokeTwice(Step),
    /// The machine went on, and the firmware has not said how this domain started.
    #[error("no line says how domain {0} started")]
    NoLine(usize),
    /// The firmware has said twice how this domain started.
    #[error("two lines say how domain {0} started")]
    TwoLines(usize),
    /// A line is about a domain that the machine does not have.
    #[error("the machine has no domain {0}")]
    NoDomain(usize),
    /// The machine did not wake although there was an image.
    #[error("the machine booted cold ({0}), although there was an image of {1}")]
    ImageLost(String, Step),
    /// The reason of a cold boot is not one that a power cut explains.
    #[error("the machine booted cold for a reason that no power cut explains: {0}")]
    Reason(String),
    /// The machine booted cold in a power-on that had begun to load an image.
    #[error("the machine booted cold ({0}) after it had begun to load an image")]
    ColdAfterLoad(String),
    /// A life began without a cold boot, or is not new.
    #[error("life {0:016x} began without a cold boot, or is not new")]
    StrangeLife(u64),
    /// An OS asks for another sleep than the next one.
    #[error("an OS asks for the sleep of {0}, which is not the next one")]
    StrangeSleep(Step),
    /// The firmware saves the machine without a request, or one of its domains does not sleep.
    #[error("the machine sleeps without the request of each OS")]
    Unasked,
    /// A sleep was refused, although the disk has no fault.
    #[error("a sleep was refused: {0}")]
    Refused(String),
    /// A forbidden line.
    #[error("the console has a forbidden line: {0}")]
    Fatal(String),
    /// The machine ended by itself, and was not asleep.
    #[error("the machine ended by itself, and was not asleep: {0}")]
    Ended(String),
}

/// Follows a machine through all of its power-ons.
#[derive(Debug)]
pub(super) struct Judge {
    /// Number of images.
    images: usize,
    medium: Medium,
    lives: BTreeSet<u64>,
    woken: BTreeSet<Step>,
    /// The counts up to now.
    pub(super) tally: Tally,
}

/// Counts of what a machine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) power_ons: u32,
    pub(super) cuts: BTreeMap<Phase, u32>,
    /// Wakes after which each OS found its memory unchanged.
    pub(super) whole: u32,
    /// Wakes that were cut before each OS had checked its memory.
    pub(super) unseen: u32,
    /// Sleeps after which the machine switched itself off.
    pub(super) slept: u32,
    pub(super) cold_boots: BTreeMap<String, u32>,
}

/// The state of one power-on, while its signs are read.
#[derive(Debug)]
struct PowerOn {
    waking: Option<Step>,
    cold: bool,
    /// The life that begins, after an OS has printed it.
    life: Option<u64>,
    /// Number of images whose save is complete.
    saved: usize,
    domains: Vec<Domain>,
}

/// The state of a domain in one power-on. A machine with one OS is one domain.
#[derive(Clone, Copy, Debug, Default)]
struct Domain {
    /// The firmware has said that it wakes.
    is_told: bool,
    /// The life or the step that continues, after its OS has printed it.
    at: Option<Step>,
    asked: Option<Step>,
}

impl PowerOn {
    fn new(images: usize) -> Self {
        Self {
            waking: None,
            cold: false,
            life: None,
            saved: 0,
            domains: vec![Domain::default(); images],
        }
    }

    fn domain(&mut self, index: usize) -> Result<&mut Domain, Violation> {
        (self.domains.get_mut(index)).ok_or(Violation::NoDomain(index))
    }

    /// Whether each OS has said where it continues.
    fn has_gone_on(&self) -> bool {
        self.domains.iter().all(|domain| domain.at.is_some())
    }

    /// The step of the sleep that begins. All domains were at one step, and each asks for the next.
    fn asked(&self) -> Result<Step, Violation> {
        let told = |domain: &Domain| self.cold || domain.is_told;
        if let Some(index) = self.domains.iter().position(|domain| !told(domain)) {
            return Err(Violation::NoLine(index));
        }
        let mut asked = self.domains.iter().map(|domain| domain.asked);
        let first = asked.next().flatten().ok_or(Violation::Unasked)?;
        match asked.all(|step| step == Some(first)) {
            true => Ok(first),
            false => Err(Violation::Unasked),
        }
    }
}

impl Judge {
    /// A judge for a machine with this many images on its medium, which is new.
    pub(super) fn new(images: usize) -> Self {
        let cuts = Phase::all(images).map(|phase| (phase, 0)).collect();
        Self {
            images,
            medium: Medium::Empty,
            lives: BTreeSet::new(),
            woken: BTreeSet::new(),
            tally: Tally {
                cuts,
                ..Tally::default()
            },
        }
    }

    /// The image or the set on the medium now.
    pub(super) fn medium(&self) -> Medium {
        self.medium
    }

    /// Judges the signs and the end of one power-on.
    pub(super) fn power_on(&mut self, signs: &[Sign], end: &End) -> Result<(), Violation> {
        self.tally.power_ons += 1;
        let mut on = PowerOn::new(self.images);
        for (index, sign) in signs.iter().enumerate() {
            let last = index + 1 == signs.len();
            self.take(&mut on, sign, last && *end == End::Cut)?;
        }
        if on.waking.is_some() {
            match on.has_gone_on() {
                true => self.tally.whole += 1,
                false => self.tally.unseen += 1,
            }
        }
        match end {
            End::Other(what) => Err(Violation::Ended(what.clone())),
            End::Off if !matches!(self.medium, Medium::Holds(_)) || !on.has_gone_on() => {
                Err(Violation::Ended("switched off".to_owned()))
            }
            End::Off => {
                self.tally.slept += 1;
                Ok(())
            }
            End::Cut => {
                let phase = Phases::after(self.images, signs);
                *self.tally.cuts.entry(phase).or_default() += 1;
                if let (Medium::Holds(step), true) = (self.medium, phase == Phase::Start) {
                    // The image may be consumed: the firmware prints nothing before it consumes
                    // one.
                    self.medium = Medium::MayHold(step);
                }
                Ok(())
            }
        }
    }

    /// Judges one sign. `torn`: the power may have been cut within it.
    fn take(&mut self, on: &mut PowerOn, sign: &Sign, torn: bool) -> Result<(), Violation> {
        match sign {
            Sign::Loading | Sign::Loaded => self.take_wake(on)?,
            Sign::Woke(index) => {
                self.take_wake(on)?;
                let was_told = std::mem::replace(&mut on.domain(*index)?.is_told, true);
                if was_told || on.cold {
                    return Err(Violation::TwoLines(*index));
                }
            }
            Sign::ColdBoot(reason) => self.take_cold_boot(on, reason, torn)?,
            Sign::Born(index, life) => self.take_birth(on, *index, *life)?,
            Sign::Whole(index, step) => {
                let waking = on.waking;
                let domain = on.domain(*index)?;
                if waking != Some(*step) {
                    return Err(Violation::OtherImage(*step, waking));
                }
                if domain.at.is_some() {
                    return Err(Violation::WokeTwice(*step));
                }
                domain.at = Some(*step);
            }
            Sign::Asks(index, step) => {
                let next = |at: Step| at.life == step.life && at.number + 1 == step.number;
                let domain = on.domain(*index)?;
                if !domain.at.is_some_and(next) || domain.asked.is_some() {
                    return Err(Violation::StrangeSleep(*step));
                }
                domain.asked = Some(*step);
            }
            Sign::Saving => drop(on.asked()?),
            Sign::Written => {
                let asked = on.asked()?;
                // The progress bar is drawn repeatedly, but never after the commit.
                if on.saved + 1 >= self.images {
                    self.medium = Medium::MayHold(asked);
                }
            }
            Sign::Saved => on.saved += 1,
            Sign::Asleep => self.medium = Medium::Holds(on.asked()?),
            Sign::Refused(what) => return Err(Violation::Refused(what.clone())),
            Sign::Fatal(line) => return Err(Violation::Fatal(line.clone())),
        }
        Ok(())
    }

    /// A life begins in all domains, each of which prints it.
    fn take_birth(&mut self, on: &mut PowerOn, index: usize, life: u64) -> Result<(), Violation> {
        let is_new = match on.life {
            None => self.lives.insert(life),
            Some(begun) => begun == life,
        };
        let was_cold = on.cold;
        let domain = on.domain(index)?;
        if !was_cold || domain.at.is_some() || !is_new {
            return Err(Violation::StrangeLife(life));
        }
        let number = 0;
        domain.at = Some(Step { life, number });
        on.life = Some(life);
        Ok(())
    }

    fn take_wake(&mut self, on: &mut PowerOn) -> Result<(), Violation> {
        if on.waking.is_some() {
            return Ok(());
        }
        match self.medium {
            Medium::Empty => Err(Violation::WakeFromNothing),
            Medium::MayHold(step) | Medium::Holds(step) => {
                if !self.woken.insert(step) {
                    return Err(Violation::WokeTwice(step));
                }
                on.waking = Some(step);
                self.medium = Medium::Empty;
                Ok(())
            }
        }
    }

    fn take_cold_boot(
        &mut self,
        on: &mut PowerOn,
        reason: &str,
        torn: bool,
    ) -> Result<(), Violation> {
        let reason = reason.to_owned();
        if on.waking.is_some() {
            return Err(Violation::ColdAfterLoad(reason));
        }
        if let Medium::Holds(step) = self.medium {
            return Err(Violation::ImageLost(reason, step));
        }
        let plain = without_numbers(&reason);
        let known = |possible: &str| plain == possible || torn && possible.starts_with(&plain);
        let Some(possible) = REASONS.into_iter().find(|possible| known(possible)) else {
            return Err(Violation::Reason(reason));
        };
        *self
            .tally
            .cold_boots
            .entry(possible.to_owned())
            .or_default() += 1;
        self.medium = Medium::Empty;
        on.cold = true;
        Ok(())
    }
}
