//! The processes of a program.

use core::hint::spin_loop;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a line.
const LINE: usize = 8;
/// The most processes.
const MOST: usize = 32;

/// A process among its like, which share the control words. Waiting processes spin, as those of
/// OpenMP do.
#[derive(Debug)]
pub struct Team<'m> {
    number: usize,
    processes: usize,
    arrived: &'m AtomicU64,
    meetings: &'m AtomicU64,
    /// A line for each process, and so for its part of a sum.
    parts: &'m [AtomicU64],
}

impl<'m> Team<'m> {
    /// Number of control words.
    pub const WORDS: usize = (3 + MOST) * LINE;

    /// Takes the next number among `processes`, of which there is at least one. The control words
    /// are zero at first.
    pub(crate) fn join(control: &'m [AtomicU64], processes: usize) -> Self {
        let processes = processes.clamp(1, MOST);
        let ticket = control[0].fetch_add(1, Ordering::Relaxed);
        Team {
            number: usize::try_from(ticket).unwrap_or(usize::MAX) % processes,
            processes,
            arrived: &control[LINE],
            meetings: &control[2 * LINE],
            parts: &control[3 * LINE..],
        }
    }

    /// This process's number, from zero on.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Waits until all processes have called this.
    pub fn wait(&self) {
        let meeting = self.meetings.load(Ordering::Relaxed);
        let others = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        if others == self.processes as u64 {
            self.arrived.store(0, Ordering::Relaxed);
            self.meetings.store(meeting + 1, Ordering::Release);
            return;
        }
        // One fence for all turns: each would be a record of the trace.
        while self.meetings.load(Ordering::Relaxed) == meeting {
            spin_loop();
        }
        fence(Ordering::Acquire);
    }

    /// This process's part of `count` items.
    #[must_use]
    pub fn part(&self, count: usize) -> Range<usize> {
        let start = |number| count * number / self.processes;
        start(self.number)..start(self.number + 1)
    }

    /// The sum of all processes' values. All processes wait for each other.
    pub fn sum(&self, value: f64) -> f64 {
        let part = &self.parts[self.number * LINE];
        part.store(value.to_bits(), Ordering::Relaxed);
        self.wait();
        let parts = self.parts.iter().step_by(LINE).take(self.processes);
        let sum = parts
            .map(|part| f64::from_bits(part.load(Ordering::Relaxed)))
            .sum();
        self.wait();
        sum
    }
}
