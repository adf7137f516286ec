//! Pseudo-random numbers; the same seed gives the same numbers.

use crate::memory::mix;

/// A sequence of numbers.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next one.
    pub(crate) fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mix(self.0)).expect("rv64's words have 64 bits")
    }

    /// One below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.next() % end
    }

    /// One of these.
    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
