//! Judges from the console alone whether a machine behaves correctly when its power is cut.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::sign::{Phase, Sign, Step};

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

/// The image on the medium, as the console shows it.
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
    /// The machine woke at another sleep than the last one.
    #[error("the machine woke at {0}, but the image was of {1:?}")]
    OtherImage(Step, Option<Step>),
    /// An image woke twice.
    #[error("the machine woke at {0} twice")]
    WokeTwice(Step),
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
    /// The kernel asks for another sleep than the next one.
    #[error("the kernel asks for the sleep of {0}, which is not the next one")]
    StrangeSleep(Step),
    /// The firmware saves the machine without a request.
    #[error("the machine sleeps without a request")]
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
    /// Wakes after which the kernel found its memory unchanged.
    pub(super) whole: u32,
    /// Wakes that were cut before the kernel had checked its memory.
    pub(super) unseen: u32,
    /// Sleeps after which the machine switched itself off.
    pub(super) slept: u32,
    pub(super) cold_boots: BTreeMap<String, u32>,
}

/// The state of one power-on, while its signs are read.
#[derive(Debug, Default)]
struct PowerOn {
    waking: Option<Step>,
    cold: bool,
    /// The life or the step that continues, after the kernel has printed it.
    at: Option<Step>,
    asked: Option<Step>,
}

impl Judge {
    /// A judge for a machine with a new medium.
    pub(super) fn new() -> Self {
        Self {
            medium: Medium::Empty,
            lives: BTreeSet::new(),
            woken: BTreeSet::new(),
            tally: Tally::default(),
        }
    }

    /// The image on the medium now.
    pub(super) fn medium(&self) -> Medium {
        self.medium
    }

    /// Judges the signs and the end of one power-on.
    pub(super) fn power_on(&mut self, signs: &[Sign], end: &End) -> Result<(), Violation> {
        self.tally.power_ons += 1;
        let mut on = PowerOn::default();
        for (index, sign) in signs.iter().enumerate() {
            let last = index + 1 == signs.len();
            self.take(&mut on, sign, last && *end == End::Cut)?;
        }
        if on.waking.is_some() && on.at.is_none() {
            self.tally.unseen += 1;
        }
        match end {
            End::Other(what) => Err(Violation::Ended(what.clone())),
            End::Off if !matches!(self.medium, Medium::Holds(_)) || on.at.is_none() => {
                Err(Violation::Ended("switched off".to_owned()))
            }
            End::Off => {
                self.tally.slept += 1;
                Ok(())
            }
            End::Cut => {
                let phase = signs.last().map_or(Phase::Start, Phase::of);
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
            Sign::Loading | Sign::Woke => self.take_wake(on),
            Sign::ColdBoot(reason) => self.take_cold_boot(on, reason, torn),
            Sign::Born(life) => {
                if !on.cold || on.at.is_some() || !self.lives.insert(*life) {
                    return Err(Violation::StrangeLife(*life));
                }
                let (life, number) = (*life, 0);
                on.at = Some(Step { life, number });
                Ok(())
            }
            Sign::Whole(step) => {
                if on.waking != Some(*step) || on.at.is_some() {
                    return Err(Violation::OtherImage(*step, on.waking));
                }
                self.tally.whole += 1;
                on.at = Some(*step);
                Ok(())
            }
            Sign::Asks(step) => {
                let next = |at: Step| at.life == step.life && at.number + 1 == step.number;
                if !on.at.is_some_and(next) {
                    return Err(Violation::StrangeSleep(*step));
                }
                on.asked = Some(*step);
                Ok(())
            }
            Sign::Saving => on.asked.map(|_| ()).ok_or(Violation::Unasked),
            Sign::Written => {
                // The progress bar is drawn repeatedly, but never after the commit.
                self.medium = Medium::MayHold(on.asked.ok_or(Violation::Unasked)?);
                Ok(())
            }
            Sign::Asleep => {
                self.medium = Medium::Holds(on.asked.ok_or(Violation::Unasked)?);
                Ok(())
            }
            Sign::Refused(what) => Err(Violation::Refused(what.clone())),
            Sign::Fatal(line) => Err(Violation::Fatal(line.clone())),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: u32) -> Step {
        Step { life: 9, number }
    }

    fn cold_boot() -> Vec<Sign> {
        vec![Sign::ColdBoot("no image".into()), Sign::Born(9)]
    }

    fn wake(number: u32) -> Vec<Sign> {
        vec![Sign::Loading, Sign::Woke, Sign::Whole(step(number))]
    }

    fn sleep(number: u32) -> Vec<Sign> {
        let asks = Sign::Asks(step(number));
        vec![asks, Sign::Saving, Sign::Written, Sign::Asleep]
    }

    /// A machine in its first life, asleep at the first step.
    fn asleep() -> Judge {
        let mut judge = Judge::new();
        let signs = [cold_boot(), sleep(1)].concat();
        judge.power_on(&signs, &End::Off).unwrap();
        assert_eq!(judge.medium(), Medium::Holds(step(1)));
        judge
    }

    #[test]
    fn a_good_life_is_good() {
        let mut judge = asleep();
        for number in 1..4 {
            let signs = [wake(number), sleep(number + 1)].concat();
            judge.power_on(&signs, &End::Off).unwrap();
        }
        assert_eq!((judge.tally.whole, judge.tally.slept), (3, 4));
    }

    #[test]
    fn every_cut_leaves_what_it_may() {
        let signs = [wake(1), sleep(2)].concat();
        let left = [
            Medium::MayHold(step(1)),
            Medium::Empty,
            Medium::Empty,
            Medium::Empty,
            Medium::Empty,
            Medium::Empty,
            Medium::MayHold(step(2)),
            Medium::Holds(step(2)),
        ];
        for (seen, &medium) in left.iter().enumerate() {
            let mut judge = asleep();
            judge.power_on(&signs[..seen], &End::Cut).unwrap();
            assert_eq!(judge.medium(), medium, "after {:?}", &signs[..seen]);
            let next = judge.power_on(&wake(2)[..2], &End::Cut);
            let may_wake = medium != Medium::Empty;
            assert_eq!(next.is_ok(), may_wake, "after {:?}", &signs[..seen]);
        }
    }

    #[test]
    fn a_consumed_image_wakes_no_more() {
        let mut judge = asleep();
        judge.power_on(&[Sign::Loading], &End::Cut).unwrap();
        let again = judge.power_on(&wake(1), &End::Cut);
        assert_eq!(again, Err(Violation::WakeFromNothing));
    }

    #[test]
    fn a_cut_before_any_sign_leaves_one_wake_at_most() {
        let mut judge = asleep();
        judge.power_on(&[], &End::Cut).unwrap();
        judge.power_on(&[], &End::Cut).unwrap();
        judge.power_on(&wake(1)[..1], &End::Cut).unwrap();
        judge.power_on(&wake(1)[..1], &End::Cut).unwrap_err();
    }

    #[test]
    fn an_older_or_other_image_is_seen() {
        let mut judge = asleep();
        let signs = [wake(1), sleep(2)].concat();
        judge.power_on(&signs, &End::Off).unwrap();
        let old = judge.power_on(&wake(1), &End::Cut);
        assert_eq!(old, Err(Violation::OtherImage(step(1), Some(step(2)))));
    }

    #[test]
    fn a_lost_image_is_seen() {
        let lost = asleep().power_on(&cold_boot(), &End::Cut);
        assert_eq!(lost, Err(Violation::ImageLost("no image".into(), step(1))));
    }

    #[test]
    fn strange_cold_boots_are_seen() {
        let damaged = [Sign::ColdBoot("slot 0: damaged".into())];
        let seen = Judge::new().power_on(&damaged, &End::Cut);
        assert!(matches!(seen, Err(Violation::Reason(_))));
        let torn = [Sign::ColdBoot("no im".into())];
        Judge::new().power_on(&torn, &End::Cut).unwrap();
        Judge::new().power_on(&torn, &End::Off).unwrap_err();
        let late = [Sign::Loading, Sign::ColdBoot("no image".into())];
        let seen = asleep().power_on(&late, &End::Cut);
        assert!(matches!(seen, Err(Violation::ColdAfterLoad(_))));
    }

    #[test]
    fn an_end_without_sleep_is_seen() {
        for end in [End::Off, End::Other("exit status: 1".into())] {
            Judge::new().power_on(&cold_boot(), &end).unwrap_err();
            asleep().power_on(&wake(1), &end).unwrap_err();
            asleep().power_on(&[], &end).unwrap_err();
        }
    }

    #[test]
    fn a_life_that_comes_twice_is_seen() {
        let mut judge = Judge::new();
        judge.power_on(&cold_boot(), &End::Cut).unwrap();
        let again = judge.power_on(&cold_boot(), &End::Cut);
        assert_eq!(again, Err(Violation::StrangeLife(9)));
    }

    #[test]
    fn refusals_and_failures_are_seen() {
        for sign in [
            Sign::Refused("error".into()),
            Sign::Fatal("test kernel: FAIL".into()),
            Sign::Saving,
            Sign::Asks(step(2)),
        ] {
            let signs = [cold_boot(), vec![sign]].concat();
            Judge::new().power_on(&signs, &End::Cut).unwrap_err();
        }
    }
}
