//! What the banks of a DIMM share: its channel, its current for activations, and its refresh.

use alloc::collections::VecDeque;

use crate::parameters::{Name, Parameters};
use crate::time::Time;

/// Accesses that may begin within the window.
const ACTIVATES: usize = 4;

/// A DIMM's shared parts, and when its accesses begin.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    channel: Time,
    window: Time,
    refresh: Time,
    every: Time,
    /// Starts of accesses that still restrict others, the earliest first.
    starts: VecDeque<Time>,
}

impl Shared {
    /// What the parameters say; `None`: nothing restricts an access.
    pub(super) fn new(parameters: &Parameters) -> Option<Self> {
        let names = [Name::Channel, Name::Activates, Name::Refresh];
        let [channel, window, refresh] = names.map(|name| parameters.time(name));
        let is_free = [channel, window, refresh] == [Time::ZERO; 3];
        (!is_free).then(|| Shared {
            channel,
            window,
            refresh,
            every: parameters.time(Name::RefreshEvery),
            starts: VecDeque::new(),
        })
    }

    /// Forgets the starts that restrict no access from `now` on.
    pub(super) fn forget(&mut self, now: Time) {
        let reach = self.channel.max(self.window);
        while self
            .starts
            .front()
            .is_some_and(|start| *start + reach <= now)
        {
            self.starts.pop_front();
        }
    }

    /// Reserves the first free start at or after `wanted`.
    pub(super) fn begin(&mut self, wanted: Time) -> Time {
        let mut start = wanted;
        loop {
            start = self.after_refresh(start);
            let place = self.starts.partition_point(|other| *other <= start);
            match self.conflict(start, place) {
                Some(later) => start = later,
                None => {
                    self.starts.insert(place, start);
                    return start;
                }
            }
        }
    }

    fn after_refresh(&self, start: Time) -> Time {
        let phase = Time(start.0 % self.every.0);
        start + (self.refresh.max(phase) - phase)
    }

    /// The next time to try if an access cannot begin at `start`, which is before that `place`.
    fn conflict(&self, start: Time, place: usize) -> Option<Time> {
        let next = self.starts.get(place).copied();
        if let Some(before) = place.checked_sub(1).map(|at| self.starts[at])
            && before + self.channel > start
        {
            return Some(before + self.channel);
        }
        // An access that has its start already is not moved, so this one comes after it.
        let after = |next: Time| next + self.channel.max(Time(1));
        if let Some(next) = next
            && start + self.channel > next
        {
            return Some(after(next));
        }
        if let Some(first) = place.checked_sub(ACTIVATES).map(|at| self.starts[at])
            && first + self.window > start
        {
            return Some(first + self.window);
        }
        let is_full = (1..=ACTIVATES).any(|later| self.is_full(start, place, later));
        is_full.then(|| next.map_or(start, after))
    }

    /// Whether `start` and its neighbours, `later` of them after it, are five in less than the window.
    fn is_full(&self, start: Time, place: usize, later: usize) -> bool {
        let before = ACTIVATES - later;
        let Some(first) = place.checked_sub(before) else {
            return false;
        };
        let first = match before {
            0 => start,
            _ => self.starts[first],
        };
        let last = self.starts.get(place + later - 1);
        last.is_some_and(|last| first + self.window > *last)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn shared(texts: &[&str]) -> Shared {
        let mut parameters = Parameters::default();
        for text in texts {
            parameters.set(text).unwrap();
        }
        Shared::new(&parameters).unwrap()
    }

    fn begins<const N: usize>(shared: &mut Shared, wanted: [u64; N]) -> [u64; N] {
        wanted.map(|at| shared.begin(Time(at * 1000)).0 / 1000)
    }

    #[test]
    fn nothing_is_shared_at_the_base_point() {
        assert!(Shared::new(&Parameters::default()).is_none());
    }

    #[test]
    fn lines_follow_each_other_on_the_channel() {
        let mut shared = shared(&["channel=4"]);
        assert_eq!(begins(&mut shared, [10, 10, 11]), [10, 14, 18]);
        // A gap before a reserved start is used if the line fits.
        assert_eq!(begins(&mut shared, [30, 24, 23]), [30, 24, 34]);
    }

    #[test]
    fn four_accesses_begin_in_a_window() {
        let mut shared = shared(&["activates=20"]);
        let found = begins(&mut shared, [0, 1, 2, 3, 4, 4]);
        assert_eq!(found, [0, 1, 2, 3, 20, 21]);
    }

    #[test]
    fn a_refresh_delays_accesses_that_would_begin_in_it() {
        let mut shared = shared(&["refresh=260", "refresh-every=7800"]);
        let found = begins(&mut shared, [0, 259, 260, 7799, 7800, 8059]);
        assert_eq!(found, [260, 260, 260, 7799, 8060, 8060]);
    }

    /// In any order, no two lines overlap on the channel and no five accesses begin in a window.
    #[test]
    fn all_starts_keep_all_rules() {
        let mut shared = shared(&["channel=3", "activates=20", "refresh=100"]);
        let mut state = 1_u64;
        let mut starts: Vec<Time> = Vec::new();
        for step in 0..2000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let now = Time(step * 6_000);
            shared.forget(now);
            let wanted = now + Time((state >> 33) % 200_000);
            let start = shared.begin(wanted);
            assert!(start >= wanted);
            starts.push(start);
        }
        starts.sort_unstable();
        for pair in starts.windows(2) {
            assert!(pair[1] - pair[0] >= Time(3_000), "{pair:?}");
        }
        for five in starts.windows(5) {
            assert!(five[4] - five[0] >= Time(20_000), "{five:?}");
        }
        assert!(starts.iter().all(|start| start.0 % 7_800_000 >= 100_000));
    }
}
