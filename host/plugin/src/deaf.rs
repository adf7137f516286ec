//! A hart that gets no interrupt for a while after the power-fail line was raised, as on a machine
//! with unequal interrupt latencies. It keeps running, so its stores and IPIs reach harts that
//! have already taken the interrupt.

/// The hart, and whether it missed an interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Deaf {
    hart: usize,
    lasts: u64,
    /// The end of the delay; `None`: the power-fail line was not raised yet.
    until: Option<u64>,
    /// Whether an interrupt was delayed and must still be delivered.
    has_missed: bool,
}

impl Deaf {
    /// A hart whose interrupts are delayed for `lasts` nanoseconds.
    #[must_use]
    pub fn new(hart: usize, lasts: u64) -> Self {
        Deaf {
            hart,
            lasts,
            until: None,
            has_missed: false,
        }
    }

    /// Starts the delay: the power-fail line was raised at `time`.
    pub fn raised(&mut self, time: u64) {
        self.until.get_or_insert(time.saturating_add(self.lasts));
    }

    /// Whether an interrupt of `hart` must be delayed now.
    pub fn misses(&mut self, hart: usize, now: u64) -> bool {
        let misses = self.hart == hart && self.until.is_some_and(|until| now < until);
        self.has_missed |= misses;
        misses
    }

    /// Whether a delayed interrupt must be delivered to `hart` now. It is delivered once.
    pub fn hears(&mut self, hart: usize, now: u64) -> bool {
        let hears =
            self.has_missed && self.hart == hart && self.until.is_some_and(|until| now >= until);
        self.has_missed &= !hears;
        hears
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hart_misses_what_comes_for_a_while_and_hears_it_once() {
        let mut deaf = Deaf::new(1, 100);
        assert!(!deaf.misses(1, 40) && !deaf.hears(1, 40), "not raised yet");
        deaf.raised(50);
        assert!(!deaf.misses(0, 60) && deaf.misses(1, 60) && deaf.misses(1, 149));
        assert!(!deaf.hears(1, 149) && !deaf.hears(0, 150));
        assert!(!deaf.misses(1, 150));
        deaf.raised(400);
        assert!(deaf.hears(1, 151) && !deaf.hears(1, 152));
        let mut idle = Deaf::new(1, 100);
        idle.raised(50);
        assert!(!idle.hears(1, 200), "nothing was kept from it");
    }
}
