//! The sleep of a domain beside others (*park*). It retains like a machine, until a wake event of
//! its own or until the machine has slept and wakes.

use crate::domain_state::{DomainCell, DomainState};
use crate::retain::{End, Next, Sleeper, Source, decide};

/// A parked domain, as its hart sees it.
pub trait Parked: Sleeper {
    /// Its state.
    fn cell(&self) -> &DomainCell;

    /// Rests until another hart interrupts. The domain's own wake events do not end this rest. It
    /// may return at any time without a reason.
    fn rest_deep(&mut self);
}

/// Rests until the sleep ends. Returns the domain's own wake event; `None` if the machine has woken
/// it.
///
/// # Panics
///
/// If the domain does not sleep.
pub fn park(domain: &mut dyn Parked) -> Option<Source> {
    loop {
        match domain.cell().state() {
            DomainState::Waking => return None,
            DomainState::Asleep => domain.rest_deep(),
            DomainState::Parked => {
                let signals = domain.look();
                let now = domain.now();
                match decide(&signals, now, None) {
                    // Otherwise the machine sleeps now, and the event waits for its wake.
                    Next::End(End::Woken(source)) if domain.cell().unpark().is_ok() => {
                        return Some(source);
                    }
                    Next::End(_) => {}
                    Next::Rest(until) => {
                        let look = domain.look_every().map(|ticks| now.saturating_add(ticks));
                        domain.rest(look.unwrap_or(u64::MAX).min(until));
                    }
                }
            }
            state @ (DomainState::Running | DomainState::Parking | DomainState::Ended) => {
                unreachable!("a resting domain is {state:?}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::retain::Signals;

    /// A domain whose timer is due at a time, beside a machine that sleeps from one time to
    /// another.
    #[derive(Debug)]
    struct Fake {
        cell: DomainCell,
        now: u64,
        timer: u64,
        machine: core::ops::Range<u64>,
        has_slept: bool,
        rests: u32,
    }

    impl Fake {
        fn rest_until(&mut self, until: u64) {
            assert!(until > self.now, "the hart rests");
            self.now = until;
            // What the master does by then; only one of these is possible.
            if self.now >= self.machine.start {
                _ = self.cell.sleep();
            }
            if self.now >= self.machine.end {
                _ = self.cell.wake();
            }
            self.rests += 1;
            assert!(self.rests < 1000, "the sleep ends");
        }
    }

    impl Sleeper for Fake {
        fn now(&self) -> u64 {
            self.now
        }

        fn look(&mut self) -> Signals {
            Signals {
                wake: (self.timer <= self.now).then_some(Source::Timer),
                due: Some(self.timer),
                ..Signals::default()
            }
        }

        fn rest(&mut self, until: u64) {
            // The master interrupts the hart.
            let rings = [self.machine.start].into_iter().filter(|at| *at > self.now);
            self.rest_until(rings.chain([until]).min().unwrap());
        }

        fn look_every(&self) -> Option<u64> {
            Some(10)
        }
    }

    impl Parked for Fake {
        fn cell(&self) -> &DomainCell {
            &self.cell
        }

        fn rest_deep(&mut self) {
            self.has_slept = true;
            self.rest_until(self.machine.end);
        }
    }

    proptest! {
        #[test]
        fn the_first_of_its_own_event_and_the_machines_sleep_decides(
            timer in 1_u64..300,
            from in 1_u64..300,
            ticks in 1_u64..300,
        ) {
            let machine = from..from + ticks;
            let cell = DomainCell::new();
            for step in [DomainCell::run, DomainCell::begin_park, DomainCell::park] {
                step(&cell).unwrap();
            }
            let mut domain = Fake { cell, now: 0, timer, machine, has_slept: false, rests: 0 };
            let own = park(&mut domain);
            if timer < from {
                prop_assert_eq!(own, Some(Source::Timer));
                prop_assert_eq!(domain.now, timer);
            } else {
                prop_assert_eq!(own, None);
                prop_assert_eq!(domain.now, from + ticks);
            }
            prop_assert_eq!(domain.has_slept, own.is_none());
        }
    }
}
