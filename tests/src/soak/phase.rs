//! The parts of a power-on at which cuts are aimed.

use super::sign::Sign;

/// A part of a power-on, between two signs. Images are counted from 0, in the order of the wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// From power-on until the image or the set is consumed or refused.
    Start,
    /// This image is loaded. Domains with an earlier one run.
    Load(usize),
    /// All OSes run: they check their memory, and fill it again.
    Run,
    /// This image is written.
    Save(usize),
    /// The last image is made durable, and all are committed.
    Commit,
    /// The images are committed, and the power is still on.
    Off,
}

impl Phase {
    /// All of a machine with this many images, in order.
    pub(super) fn all(images: usize) -> impl Iterator<Item = Self> {
        let begin = [Self::Start].into_iter();
        let load = begin.chain((0..images).map(Self::Load));
        let save = load.chain([Self::Run]).chain((0..images).map(Self::Save));
        save.chain([Self::Commit, Self::Off])
    }
}

/// Follows a power-on through its phases.
#[derive(Debug)]
pub(super) struct Phases {
    images: usize,
    loaded: usize,
    asking: usize,
    saved: usize,
    now: Phase,
}

impl Phases {
    pub(super) fn new(images: usize) -> Self {
        Self {
            images,
            loaded: 0,
            asking: 0,
            saved: 0,
            now: Phase::Start,
        }
    }

    /// The phase after these signs.
    pub(super) fn after(images: usize, signs: &[Sign]) -> Phase {
        let mut phases = Self::new(images);
        for sign in signs {
            phases.take(sign);
        }
        phases.now
    }

    /// Takes the next sign. Returns the phase after it.
    pub(super) fn take(&mut self, sign: &Sign) -> Phase {
        let last = self.images - 1;
        match sign {
            Sign::Loading => self.now = Phase::Load(self.loaded.min(last)),
            // The last image's load ends with the line about the wake.
            Sign::Loaded => {
                self.loaded += 1;
                self.now = Phase::Load(self.loaded.min(last));
            }
            Sign::Woke(_) | Sign::ColdBoot(_) => self.now = Phase::Run,
            Sign::Asks(..) => {
                self.asking += 1;
                if self.asking == self.images {
                    self.now = Phase::Save(0);
                }
            }
            Sign::Saving => self.now = Phase::Save(self.saved.min(last)),
            Sign::Written if self.saved == last => self.now = Phase::Commit,
            Sign::Saved => {
                self.saved += 1;
                if self.saved <= last {
                    self.now = Phase::Save(self.saved);
                }
            }
            Sign::Asleep => self.now = Phase::Off,
            Sign::Born(..)
            | Sign::Whole(..)
            | Sign::Written
            | Sign::Refused(_)
            | Sign::Fatal(_) => {}
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::super::sign::Step;
    use super::*;

    #[test]
    fn a_wake_and_a_sleep_go_through_all_phases() {
        let step = Step { life: 9, number: 1 };
        // The first domain goes on while the second one's image is loaded.
        let signs = [
            (Sign::Loading, Phase::Load(0)),
            (Sign::Loaded, Phase::Load(1)),
            (Sign::Whole(0, step), Phase::Load(1)),
            (Sign::Asks(0, step), Phase::Load(1)),
            (Sign::Loading, Phase::Load(1)),
            (Sign::Loaded, Phase::Load(1)),
            (Sign::Woke(0), Phase::Run),
            (Sign::Woke(1), Phase::Run),
            (Sign::Whole(1, step), Phase::Run),
            (Sign::Asks(1, step), Phase::Save(0)),
            (Sign::Saving, Phase::Save(0)),
            (Sign::Written, Phase::Save(0)),
            (Sign::Written, Phase::Save(0)),
            (Sign::Saved, Phase::Save(1)),
            (Sign::Saving, Phase::Save(1)),
            (Sign::Written, Phase::Commit),
            (Sign::Written, Phase::Commit),
            (Sign::Saved, Phase::Commit),
            (Sign::Asleep, Phase::Off),
        ];
        let mut phases = Phases::new(2);
        let mut seen = vec![Phase::Start];
        for (sign, phase) in signs {
            assert_eq!(phases.take(&sign), phase, "{sign:?}");
            seen.push(phase);
        }
        seen.dedup();
        assert_eq!(seen, Phase::all(2).collect::<Vec<_>>());
    }
}
