//! Waits with a limit, for the drivers of devices. A wait that takes long says what it is for.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use core::fmt::Display;

/// The time for which a wait says nothing, in milliseconds.
const SILENT_MS: u64 = 2_000;

/// A monotonic clock, which limits all waits. It must advance between reads.
pub trait Clock {
    /// Milliseconds since a fixed moment.
    fn milliseconds(&self) -> u64;

    /// Returns whether the power fails. Then waits end as if the device had not answered in time.
    /// Waits for a device to stop do not end.
    fn power_fails(&self) -> bool {
        false
    }

    /// Called once in a wait that has taken 2 s. `wait` says what it is for, as in "the disk to
    /// stop"; it may take `limit` milliseconds.
    fn waits(&self, _wait: &dyn Display, _limit: u64) {}
}

impl<K: Clock + ?Sized> Clock for &K {
    fn milliseconds(&self) -> u64 {
        (**self).milliseconds()
    }

    fn power_fails(&self) -> bool {
        (**self).power_fails()
    }

    fn waits(&self, wait: &dyn Display, limit: u64) {
        (**self).waits(wait, limit);
    }
}

/// The silence of a wait, which it breaks once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    is_broken: bool,
}

impl Silence {
    /// Whether a wait that has taken `took` of `limit` milliseconds is to be told now.
    pub fn breaks(&mut self, took: u64, limit: u64) -> bool {
        let breaks = !self.is_broken && took > SILENT_MS && limit > SILENT_MS;
        self.is_broken |= breaks;
        breaks
    }
}

/// Polls `condition` until it returns a value, the milliseconds of the limit have passed, or the
/// power fails. The last poll starts after that, so a delayed hart does not blame the
/// device.
pub fn wait_for<T>(
    clock: &impl Clock,
    limit: (impl Display, u64),
    condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    wait_until(clock, limit, || clock.power_fails(), condition)
}

/// As [`wait_for`], but ignores a power failure: for operations that must be complete before the
/// power is off.
pub fn wait_firmly<T>(
    clock: &impl Clock,
    limit: (impl Display, u64),
    condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    wait_until(clock, limit, || false, condition)
}

fn wait_until<T>(
    clock: &impl Clock,
    (wait, limit): (impl Display, u64),
    is_over: impl Fn() -> bool,
    mut condition: impl FnMut() -> Option<T>,
) -> Option<T> {
    let begin = clock.milliseconds();
    let mut silence = Silence::default();
    loop {
        let took = clock.milliseconds().saturating_sub(begin);
        let late = took > limit || is_over();
        if let Some(value) = condition() {
            return Some(value);
        }
        if late {
            return None;
        }
        if silence.breaks(took, limit) {
            clock.waits(&wait, limit);
        }
        core::hint::spin_loop();
    }
}

/// Waits for at least `duration` milliseconds, or until the power fails.
pub fn pause(clock: &impl Clock, duration: u64) {
    let begin = clock.milliseconds();
    while clock.milliseconds().saturating_sub(begin) <= duration && !clock.power_fails() {
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A clock that advances by a millisecond at each read.
    #[derive(Default)]
    struct Told {
        now: Cell<u64>,
        told: RefCell<Vec<(u64, String, u64)>>,
    }

    impl Clock for Told {
        fn milliseconds(&self) -> u64 {
            self.now.set(self.now.get() + 1);
            self.now.get()
        }

        fn waits(&self, wait: &dyn Display, limit: u64) {
            self.told
                .borrow_mut()
                .push((self.now.get(), wait.to_string(), limit));
        }
    }

    /// What a wait says that would take `needed` milliseconds, and may take `limit`.
    fn told(needed: u64, limit: u64) -> Vec<(u64, String, u64)> {
        let clock = Told::default();
        let got = wait_for(&clock, ("a device", limit), || {
            (clock.now.get() > needed).then_some(())
        });
        assert_eq!(got.is_some(), needed <= limit + 1);
        clock.told.take()
    }

    #[test]
    fn a_wait_of_more_than_two_seconds_is_told_once() {
        assert_eq!(told(2_000, 60_000), []);
        for (needed, limit) in [(2_100, 60_000), (50_000, 60_000), (90_000, 60_000)] {
            let [(at, wait, told_limit)] = &told(needed, limit)[..] else {
                panic!("{needed} of {limit}");
            };
            assert!((2_001..2_010).contains(at), "{at}");
            assert_eq!((&wait[..], *told_limit), ("a device", limit));
        }
        // A wait that may not take longer says why it failed, in its error.
        assert_eq!(told(3_000, 2_000), []);
    }
}
