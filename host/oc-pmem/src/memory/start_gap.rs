//! Start-Gap: wear levelling with two registers (Qureshi et al., MICRO 2009).
//!
//! Memory has one slot more than lines: the gap. After each `interval` writes the line below the
//! gap moves into it, and the gap moves down. After `lines + 1` moves each line has moved by one.

/// A line's move into the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The slot that the line leaves. It is the gap now.
    pub from: u64,
    /// The slot that the line gets.
    pub to: u64,
}

/// The registers of Start-Gap.
#[derive(Clone, Copy, Debug)]
pub struct StartGap {
    lines: u64,
    start: u64,
    gap: u64,
    /// Writes between two moves; 0: no moves.
    interval: u64,
    writes: u64,
}

impl StartGap {
    /// A memory of `lines` lines.
    #[must_use]
    pub fn new(lines: u64, interval: u64) -> Self {
        StartGap {
            lines,
            start: 0,
            gap: lines,
            interval,
            writes: 0,
        }
    }

    /// The line's slot.
    #[must_use]
    pub fn slot(&self, line: u64) -> u64 {
        let rotated = line + self.start;
        let rotated = if rotated >= self.lines {
            rotated - self.lines
        } else {
            rotated
        };
        rotated + u64::from(rotated >= self.gap)
    }

    /// Counts a write. The move that it causes, if it does.
    pub fn written(&mut self) -> Option<Move> {
        self.writes += 1;
        if self.interval == 0 || self.writes < self.interval {
            return None;
        }
        self.writes = 0;
        let to = self.gap;
        if to == 0 {
            self.gap = self.lines;
            self.start = (self.start + 1) % self.lines;
            return Some(Move {
                from: self.lines,
                to,
            });
        }
        self.gap -= 1;
        Some(Move { from: self.gap, to })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn index(value: u64) -> usize {
        usize::try_from(value).expect("small")
    }

    proptest! {
        /// A move carries the right contents, so that each line is found after each write.
        #[test]
        fn lines_are_found_after_each_move(
            lines in 1..40_u64, interval in 1..5_u64, writes in 0..2000_usize,
        ) {
            let mut levels = StartGap::new(lines, interval);
            let mut slots: Vec<Option<u64>> = (0..lines).map(Some).chain([None]).collect();
            for _ in 0..writes {
                if let Some(Move { from, to }) = levels.written() {
                    slots[index(to)] = slots[index(from)].take();
                }
                for line in 0..lines {
                    prop_assert_eq!(slots[index(levels.slot(line))], Some(line));
                }
            }
        }

        /// A line leaves its slot within `lines + 1` moves. Therefore a slot gets at most
        /// `(lines + 1) * interval` writes in a row, and the copy that came with the line.
        #[test]
        fn wear_is_within_the_bound(
            lines in 2..20_u64, interval in 1..8_u64, target in 0..20_u64, writes in 0..5000_u64,
        ) {
            let mut levels = StartGap::new(lines, interval);
            let mut wear = vec![0_u64; index(lines) + 1];
            for _ in 0..writes {
                wear[index(levels.slot(target % lines))] += 1;
                if let Some(Move { to, .. }) = levels.written() {
                    wear[index(to)] += 1;
                }
            }
            // One stay on a slot, for each time that the line has been around.
            let stay = (lines + 1) * interval;
            let rounds = writes / (stay * lines) + 1;
            let copies = writes / interval / (lines + 1) + 1;
            let most = wear.iter().max().copied().unwrap_or_default();
            prop_assert!(most <= rounds * stay + copies, "{} of {}", most, rounds * stay + copies);
        }
    }
}
