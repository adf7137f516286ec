//! The power-fail signal and the end of the power, as events at times of the fair time base.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Signal,
    /// The hold-up has run out.
    HoldUpOver,
}

/// The future events, in nanoseconds of the fair time base.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    signal_at: Option<u64>,
    hold_up: Option<u64>,
    hold_up_over: Option<u64>,
}

impl Schedule {
    /// A signal at `signal_at`, and the end of the power `hold_up` after a signal. Each may be
    /// absent.
    #[must_use]
    pub fn new(signal_at: Option<u64>, hold_up: Option<u64>) -> Self {
        Schedule {
            signal_at,
            hold_up,
            hold_up_over: None,
        }
    }

    /// Time of the next event.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        let times = [self.signal_at, self.hold_up_over];
        times.into_iter().flatten().min()
    }

    /// Removes and returns the event that is due at `now`. The end of the power comes first.
    pub fn due(&mut self, now: u64) -> Option<Event> {
        let take = |time: &mut Option<u64>| time.take_if(|time| *time <= now).is_some();
        if take(&mut self.hold_up_over) {
            Some(Event::HoldUpOver)
        } else if take(&mut self.signal_at) {
            Some(Event::Signal)
        } else {
            None
        }
    }

    /// The power-fail line was raised at `time`: the hold-up begins.
    pub fn raised(&mut self, time: u64) {
        self.hold_up_over = self.hold_up.map(|length| time.saturating_add(length));
    }

    /// The power-fail line was lowered: the power will not end.
    pub fn lowered(&mut self) {
        self.hold_up_over = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hold_up_begins_with_the_signal() {
        let mut schedule = Schedule::new(Some(100), Some(50));
        assert_eq!(schedule.next(), Some(100));
        assert_eq!(schedule.due(99), None);
        assert_eq!(schedule.due(100), Some(Event::Signal));
        assert_eq!(schedule.due(100), None);
        schedule.raised(100);
        assert_eq!(schedule.next(), Some(150));
        assert_eq!(schedule.due(150), Some(Event::HoldUpOver));
    }

    #[test]
    fn power_that_comes_back_is_not_cut() {
        let mut schedule = Schedule::new(None, Some(50));
        schedule.raised(7);
        schedule.lowered();
        assert_eq!(schedule.due(1000), None);
    }
}
