//! When a trace is recorded: from the mark on, after a number of instructions, for a number of
//! instructions of the busiest hart.

/// What the trace does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The caches fill, and no request is recorded.
    Skipping,
    /// Requests are recorded.
    Recording,
    /// The window is full.
    Full,
}

/// The window, counted in instructions of each hart since the machine's start.
#[derive(Clone, Debug)]
pub struct Window {
    skip: u64,
    length: u64,
    phase: Phase,
    /// Each hart's instructions at the phase's start.
    starts: Vec<u64>,
}

impl Window {
    /// Begins at the mark, when the harts have executed `executed` instructions.
    #[must_use]
    pub fn new(skip: u64, length: u64, executed: Vec<u64>) -> Self {
        let phase = match skip {
            0 => Phase::Recording,
            _ => Phase::Skipping,
        };
        Window {
            skip,
            length,
            phase,
            starts: executed,
        }
    }

    /// The phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Instructions that a hart has executed in this phase, of `executed` since the machine's start.
    #[must_use]
    pub fn within(&self, hart: usize, executed: u64) -> u64 {
        executed - self.starts[hart]
    }

    /// A window of any length, which a call opens: [`open`](Self::open) begins the recording. Until
    /// then the caches fill.
    #[must_use]
    pub fn closed(harts: usize) -> Self {
        Window::new(u64::MAX, u64::MAX, vec![0; harts])
    }

    /// Begins the recording, when the harts had executed `starts` instructions. Later calls change
    /// nothing.
    pub fn open(&mut self, starts: Vec<u64>) {
        if self.phase == Phase::Skipping {
            self.phase = Phase::Recording;
            self.starts = starts;
        }
    }

    /// Takes note of a hart's instructions. `all` tells those of all harts. Returns the phase that
    /// begins, if one does.
    pub fn reached(
        &mut self,
        hart: usize,
        executed: u64,
        all: impl FnOnce() -> Vec<u64>,
    ) -> Option<Phase> {
        let within = self.within(hart, executed);
        match self.phase {
            Phase::Skipping if within >= self.skip => {
                self.phase = Phase::Recording;
                self.starts = all();
            }
            Phase::Recording if within >= self.length => self.phase = Phase::Full,
            Phase::Skipping | Phase::Recording | Phase::Full => return None,
        }
        Some(self.phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_hart_counts() {
        let mut window = Window::new(100, 50, vec![1000, 10]);
        assert_eq!(window.phase(), Phase::Skipping);
        let mut reached = |hart, executed, all: [u64; 2]| {
            let phase = window.reached(hart, executed, || all.to_vec());
            (phase, window.within(0, all[0]), window.within(1, all[1]))
        };
        assert_eq!(reached(0, 1099, [1099, 10]), (None, 99, 0));
        assert_eq!(
            reached(1, 110, [1099, 110]),
            (Some(Phase::Recording), 0, 0),
            "each hart's own start"
        );
        assert_eq!(reached(1, 159, [1100, 159]), (None, 1, 49));
        assert_eq!(reached(0, 1149, [1149, 159]), (Some(Phase::Full), 50, 49));
        assert_eq!(reached(0, 9999, [9999, 159]).0, None, "once");
        assert_eq!(Window::new(0, 1, vec![7]).phase(), Phase::Recording);
    }
}
