//! Converts counts to time on a board.

use std::time::Duration;

use poorwill_machine::Clock;

use super::Figures;

/// The times that a board takes.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// The clock, at 0.66 instructions a cycle.
    pub clock: Clock,
    /// Time of an access to a device's register.
    pub access: Duration,
    /// Time to write back a line. All lines go to one memory, one after the other.
    pub line: Duration,
}

impl Default for Costs {
    /// The clock of the paper's prototype, 500 ns for an access, and for a line 4.1 times the 60 ns
    /// of DRAM, as for the paper's memory.
    fn default() -> Self {
        Costs {
            clock: Clock::default(),
            access: Duration::from_nanos(500),
            line: Duration::from_nanos(246),
        }
    }
}

impl Costs {
    /// The longest time of Stop: the worst run, with all lines of all caches dirty.
    #[must_use]
    pub fn stop(&self, figures: &Figures) -> Duration {
        self.stop_parts(figures).into_iter().sum()
    }

    /// The parts of that time: instructions without caches, the caches' displacement, accesses to
    /// devices, and lines.
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

    /// The time of Go, in the worst run.
    #[must_use]
    pub fn go(&self, figures: &Figures) -> Duration {
        self.clock.time_of(figures.go)
    }
}
