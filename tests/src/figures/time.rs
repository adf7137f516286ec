//! Counts as time on a board.

use std::time::Duration;

use poorwill_machine::Clock;

use super::Figures;

/// What a board takes for what is counted.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Its clock, at 0.66 instructions in a cycle.
    pub clock: Clock,
    /// Each access to a device's register.
    pub access: Duration,
    /// Each line that is written back: all of them go to one memory.
    pub line: Duration,
}

impl Default for Costs {
    /// The prototype's clock; 500 ns for an access; and 4.1 times what a line takes in DRAM
    /// of 60 ns, as the paper's memory does.
    fn default() -> Self {
        Costs {
            clock: Clock::default(),
            access: Duration::from_nanos(500),
            line: Duration::from_nanos(246),
        }
    }
}

impl Costs {
    /// How long Stop takes at most, in the worst run, with every line of every cache dirty.
    #[must_use]
    pub fn stop(&self, figures: &Figures) -> Duration {
        self.stop_parts(figures).into_iter().sum()
    }

    /// The same in its parts: instructions without caches, the caches' displacement, accesses
    /// to devices, lines.
    #[must_use]
    pub fn stop_parts(&self, figures: &Figures) -> [Duration; 4] {
        let times = |one: Duration, count: u64| {
            one.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
        };
        let path = self.clock.time_of(figures.path());
        [
            path,
            self.clock.time_of(figures.stop.1) - path,
            times(self.access, figures.accesses),
            times(self.line, figures.lines),
        ]
    }

    /// How long Go takes.
    #[must_use]
    pub fn go(&self, figures: &Figures) -> Duration {
        self.clock.time_of(figures.go)
    }
}
