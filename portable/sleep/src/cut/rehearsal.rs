//! Predicts how long Stop takes, from a rehearsal at the start.

use thiserror::Error;

/// The times of a rehearsal on one hart, in ticks of `time`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// Finds the functions of PCI.
    pub survey: u64,
    /// Writes the hart's part of the record and its digest, and writes its own caches back.
    pub hart: u64,
    /// The same for the parts that the coordinator writes alone.
    pub shared: u64,
    /// Writes all caches back, which hold the lines of the coordinator's parts.
    pub flush: u64,
    /// Writes all caches back again, now without dirty lines.
    pub clean: u64,
    /// How many times Stop writes all caches back for single lines of the record: the first time before
    /// the devices are quiet.
    pub passes: u64,
    /// Bytes of the coordinator's parts.
    pub written: u64,
}

/// The predicted times of a Stop, in ticks of `time`, without the time that devices in use take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StopTime {
    /// From the power failure until the devices' state is being saved.
    pub before: u64,
    /// From the last quiet device to the commit.
    pub after: u64,
}

/// The power would be lost before Stop has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("stop takes {stop_us} us, the power lasts {hold_up_us} us")]
pub struct HoldUpTooShort {
    /// Microseconds that Stop takes.
    pub stop_us: u64,
    /// Microseconds for which the power lasts.
    pub hold_up_us: u32,
}

/// The divisor of the part that a prediction has on top, for what differs between the rehearsal and a
/// Stop: the ends of traps, contended locks, pending interrupts.
const MARGIN: u64 = 4;

/// The divisor of a hart's work that gives what it adds to the work of the others. On 8 harts of QEMU,
/// with a fair time base, each adds an eighth (`make figures-cut`).
const SHARE: u64 = 4;

impl Rehearsal {
    /// The times of Stop on `harts` harts, whose caches have `cached` bytes in all (`None`: unknown).
    ///
    /// Harts write their parts at the same time, and wait for each other's locks and for memory: each
    /// further one counts in part ([`SHARE`]). All lines of all caches may be dirty, and each takes as long
    /// as one of the rehearsal.
    #[must_use]
    pub fn predict(&self, harts: u64, cached: Option<u64>) -> StopTime {
        let cached = cached.unwrap_or(self.written).max(1);
        let held = self.written.clamp(1, cached);
        let dirty = (self.flush.saturating_sub(self.clean)).saturating_mul(cached) / held;
        let others = (self.hart / SHARE).saturating_mul(harts.saturating_sub(1));
        let parts = self.hart.saturating_add(others).saturating_add(self.shared);
        let passes = |number: u64| self.clean.saturating_mul(number);
        let first = self.passes.min(1);
        let flushes = passes(1 + self.passes.saturating_sub(1));
        let after = parts.saturating_add(flushes).saturating_add(dirty);
        // A hart ends its trap in less time than it writes its part. The functions are listed, and
        // then saved.
        let before = self.hart.saturating_add(self.survey.saturating_mul(2));
        let before = before.saturating_add(passes(first));
        StopTime {
            before: with_margin(before),
            after: with_margin(after),
        }
    }
}

impl StopTime {
    /// The times of a machine that was armed before, and whose last Stop took `after` ticks from the last
    /// quiet device to the commit.
    #[must_use]
    pub fn measured(after: u64) -> Self {
        StopTime {
            before: 0,
            after: with_margin(after),
        }
    }

    /// Ticks of the whole Stop, if no device is in use.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.before.saturating_add(self.after)
    }

    /// Decides whether the power-fail line may be armed: Stop must end within `hold_up` ticks, which are
    /// `hold_up_us` microseconds. `microseconds` converts ticks. Returns Stop's microseconds.
    ///
    /// # Errors
    ///
    /// [`HoldUpTooShort`].
    pub fn decide(
        &self,
        hold_up: u64,
        hold_up_us: u32,
        microseconds: impl FnOnce(u64) -> u64,
    ) -> Result<u64, HoldUpTooShort> {
        let stop_us = microseconds(self.total());
        match self.total() <= hold_up {
            true => Ok(stop_us),
            false => Err(HoldUpTooShort {
                stop_us,
                hold_up_us,
            }),
        }
    }

    /// Ticks from the power failure until all devices must be quiet: three quarters of the hold-up, or
    /// less if the rest takes longer than the last quarter.
    #[must_use]
    pub fn quiet(&self, hold_up: u64) -> u64 {
        (hold_up / 4 * 3).min(hold_up.saturating_sub(self.after))
    }
}

fn with_margin(ticks: u64) -> u64 {
    ticks.saturating_add(ticks.div_ceil(MARGIN))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REHEARSAL: Rehearsal = Rehearsal {
        survey: 10,
        hart: 100,
        shared: 400,
        flush: 90,
        clean: 50,
        passes: 0,
        written: 1000,
    };

    #[test]
    fn each_hart_counts() {
        let one = REHEARSAL.predict(1, Some(1000));
        assert_eq!((one.before, one.after), (150, (100 + 400 + 90) * 5 / 4 + 1));
        let nine = REHEARSAL.predict(9, Some(1000));
        assert_eq!(nine.after, (100 + 8 * 25 + 400 + 90) * 5 / 4 + 1);
    }

    #[test]
    fn all_lines_of_all_caches_may_be_dirty() {
        let flush = |cached| REHEARSAL.predict(1, cached).after;
        assert_eq!(flush(Some(10_000)), (100 + 400 + 50 + 400) * 5 / 4 + 1);
        // Smaller caches cannot hold all that was written.
        assert_eq!(flush(Some(500)), flush(Some(1000)));
        assert_eq!(flush(None), flush(Some(1000)));
    }

    #[test]
    fn a_line_without_means_of_its_own_takes_all_caches() {
        let time = |passes| {
            let rehearsal = Rehearsal {
                passes,
                ..REHEARSAL
            };
            let time = rehearsal.predict(1, Some(1000));
            (time.before, time.after)
        };
        let (before, after) = time(0);
        assert_eq!(time(1), (before + 63, after), "50, and a quarter");
        assert_eq!(
            (after, time(4)),
            (738, (before + 63, 925)),
            "150, and a quarter"
        );
    }

    #[test]
    fn devices_have_the_rest_of_the_hold_up() {
        let time = StopTime {
            before: 10,
            after: 100,
        };
        assert_eq!(time.quiet(4000), 3000);
        assert_eq!(time.quiet(200), 100);
        assert_eq!(time.quiet(50), 0);
        assert_eq!(StopTime::measured(100).after, 125);
    }

    #[test]
    fn a_stop_as_long_as_the_hold_up_is_armed() {
        let time = StopTime {
            before: 400,
            after: 600,
        };
        let decide = |hold_up| time.decide(hold_up, 100, |ticks| ticks / 10);
        assert_eq!(decide(1000), Ok(100));
        let refused = decide(999).unwrap_err();
        assert_eq!(
            std::string::ToString::to_string(&refused),
            "stop takes 100 us, the power lasts 100 us"
        );
    }

    #[test]
    fn no_time_is_too_long() {
        let longest = Rehearsal {
            clean: 0,
            ..of([u64::MAX; 6])
        };
        let time = longest.predict(64, Some(u64::MAX));
        assert_eq!((time.total(), time.quiet(u64::MAX)), (u64::MAX, 0));
    }

    fn of([survey, hart, shared, flush, clean, written]: [u64; 6]) -> Rehearsal {
        Rehearsal {
            survey,
            hart,
            shared,
            flush,
            clean,
            passes: 3,
            written,
        }
    }

    proptest! {
        /// No longer time makes a prediction shorter, where the write-back of clean caches is the same.
        #[test]
        fn a_longer_rehearsal_predicts_a_longer_stop(
            times: [u32; 4], more: [u32; 4], clean: u32, harts in 1u64..65, cached: u64, written: u64,
        ) {
            let predict = |more: [u32; 4]| {
                let [survey, hart, shared, flush] =
                    core::array::from_fn(|at| u64::from(times[at]) + u64::from(more[at]));
                let rehearsal = of([survey, hart, shared, flush, clean.into(), written]);
                rehearsal.predict(harts, Some(cached))
            };
            let (short, long) = (predict([0; 4]), predict(more));
            prop_assert!(short.before <= long.before && short.after <= long.after);
        }
    }
}
