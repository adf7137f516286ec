//! The releases of the two periodic tasks.

/// Heartbeats in a control period.
pub const CONTROL_EVERY: u64 = 10;

/// The cyclic schedule: a heartbeat each millisecond, control each [`CONTROL_EVERY`] heartbeats.
/// All times are in ticks of `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    period: u64,
    next: u64,
    /// Number of the next release in its control period.
    place: u64,
}

/// A release that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Ticks since the release.
    pub lateness: u64,
    /// Later releases that have passed, too. Each is a missed deadline, and is not made up.
    pub skipped: u64,
    /// Control is released with this heartbeat, or with a skipped one.
    pub is_control: bool,
}

impl Schedule {
    /// A schedule for a clock of at least 1000 `ticks_per_second`, with its first release at `now`.
    #[must_use]
    pub fn new(ticks_per_second: u64, now: u64) -> Self {
        Schedule {
            period: (ticks_per_second / 1000).max(1),
            next: now,
            place: 0,
        }
    }

    /// Re-synchronises with the clock: both tasks are released `now`. Releases during a sleep are
    /// neither missed nor made up.
    pub fn restart(&mut self, now: u64) {
        (self.next, self.place) = (now, 0);
    }

    /// Ticks of a heartbeat's period.
    #[must_use]
    pub fn period(&self) -> u64 {
        self.period
    }

    /// The time of the next release.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Takes the release that `now` has reached, together with all skipped ones.
    pub fn take(&mut self, now: u64) -> Option<Due> {
        let lateness = now.checked_sub(self.next)?;
        let skipped = lateness / self.period;
        let is_control = self.place == 0 || self.place + skipped >= CONTROL_EVERY;
        self.place = (self.place + skipped + 1) % CONTROL_EVERY;
        self.next += (skipped + 1) * self.period;
        Some(Due {
            lateness,
            skipped,
            is_control,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HZ: u64 = 10_000_000;

    #[test]
    fn control_comes_with_each_tenth_heartbeat() {
        let mut schedule = Schedule::new(HZ, 500);
        let control: Vec<_> = (0..30)
            .filter(|_| {
                schedule
                    .take(schedule.next())
                    .is_some_and(|due| due.is_control)
            })
            .collect();
        assert_eq!(control, [0, 10, 20]);
        assert_eq!(schedule.next(), 500 + 30 * 10_000);
    }

    #[test]
    fn a_restart_counts_nothing_as_missed_whichever_way_time_went() {
        for now in [0, 70_000_000_000] {
            let mut schedule = Schedule::new(HZ, 1_000_000);
            assert_eq!(schedule.take(999_999), None);
            schedule.restart(now);
            let due = schedule.take(now + 3).expect("released at once");
            assert_eq!((due.lateness, due.skipped, due.is_control), (3, 0, true));
        }
    }

    proptest! {
        #[test]
        fn releases_stay_on_their_grid_and_none_is_lost(waits in prop::collection::vec(0_u64..100_000, 1..60)) {
            let mut schedule = Schedule::new(HZ, 0);
            let (mut now, mut releases, mut controls) = (0, 0, 0);
            for wait in waits {
                now += wait;
                if let Some(due) = schedule.take(now) {
                    prop_assert!(due.lateness / 10_000 == due.skipped);
                    let before: u64 = releases;
                    releases += 1 + due.skipped;
                    let has_control = (before..releases).any(|number| number.is_multiple_of(CONTROL_EVERY));
                    prop_assert_eq!(due.is_control, has_control);
                    controls += u64::from(due.is_control);
                }
                prop_assert_eq!(schedule.next(), releases * 10_000);
                prop_assert!(schedule.next() > now);
            }
            prop_assert!(controls <= releases.div_ceil(CONTROL_EVERY));
        }
    }
}
