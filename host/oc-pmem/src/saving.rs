//! Harts that save memory's contents to OC-PMEM, as the paper's comparators do.

use alloc::vec;
use alloc::vec::Vec;

use crate::memory::beside::PERSISTENT;
use crate::parameters::Parameters;
use crate::request::{Kind, Request, Source};
use crate::run::{Outcome, run_beside};

/// Instructions that copy a line: eight loads, eight stores, a flush, and three of the loop.
const LOADS: u64 = 8;
const STORES: u64 = 8;
const LOOP: u64 = 3;
const COPY: u64 = LOADS + STORES + 1 + LOOP;

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From DRAM to OC-PMEM. Each line is flushed.
    Save,
    /// From OC-PMEM to DRAM. Each line leaves the cache as another one takes its place.
    Restore,
}

/// Harts that copy lines of their own, one after the other, and end with a fence.
///
/// Both lines of a copy miss. The caches allocate on writes, so a store reads its line before.
#[derive(Clone, Debug)]
pub struct Transfer {
    direction: Direction,
    /// Lines of each hart.
    lines: u64,
    made: Vec<u64>,
}

impl Transfer {
    /// `harts` harts with `lines` lines each.
    #[must_use]
    pub fn new(direction: Direction, harts: usize, lines: u64) -> Self {
        Transfer {
            direction,
            lines,
            made: vec![0; harts],
        }
    }

    /// Lets the harts copy. The counts are OC-PMEM's.
    #[must_use]
    pub fn run(mut self, parameters: &Parameters) -> Outcome {
        run_beside(&mut self, parameters)
    }
}

/// A line of OC-PMEM, or of DRAM. Numbers beyond the half of all numbers wrap around.
fn line(number: u64, is_persistent: bool) -> u32 {
    let number = u32::try_from(number % u64::from(PERSISTENT)).unwrap_or_default();
    match is_persistent {
        true => number + PERSISTENT,
        false => number,
    }
}

const fn request(kind: Kind, line: u32, instructions: u64) -> Request {
    Request {
        kind,
        line,
        instructions,
    }
}

impl Source for Transfer {
    fn harts(&self) -> usize {
        self.made.len()
    }

    fn next(&mut self, hart: usize) -> Option<Request> {
        let made = self.made.get_mut(hart)?;
        let (copied, step) = (*made / 3, *made % 3);
        if copied > self.lines || (copied == self.lines && step > 0) {
            return None;
        }
        *made += 1;
        if copied == self.lines {
            return Some(request(Kind::Fence, 0, 1));
        }
        let number = hart as u64 * self.lines + copied;
        let is_save = self.direction == Direction::Save;
        let to = line(number, is_save);
        Some(match (step, self.direction) {
            (0, _) => request(Kind::Load, line(number, !is_save), LOOP),
            (1, _) => request(Kind::Store, to, LOADS),
            (_, Direction::Save) => request(Kind::Flush, to, STORES + 1),
            (_, Direction::Restore) => request(Kind::WriteBack, to, STORES + 1),
        })
    }

    fn instructions(&self, _hart: usize) -> u64 {
        self.lines * COPY + 1
    }
}

/// Lines of a hart's log, after which it begins anew.
const LOG: u64 = 1 << 20;

/// Harts that execute, and save some lines at the end of each function: each checkpoint is appended to
/// the hart's log, and is over once OC-PMEM's devices have it.
///
/// The saved lines are in the hart's cache, as it has just stored them. The log's lines are not.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    /// Instructions between two checkpoints.
    work: u64,
    /// Checkpoints of each hart, and the sum of their lines.
    ends: u64,
    lines: u64,
    harts: Vec<Progress>,
}

/// A hart's place: whole checkpoints, requests of the present one, saved lines.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    end: u64,
    step: u64,
    saved: u64,
}

impl Checkpoints {
    /// `harts` harts with `ends` checkpoints of `lines` lines in all, each after `work` instructions.
    /// Sizes differ by one line at most. `lines` is raised to `ends`.
    #[must_use]
    pub fn new(harts: usize, work: u64, ends: u64, lines: u64) -> Self {
        Checkpoints {
            work,
            ends,
            lines: lines.max(ends),
            harts: vec![Progress::default(); harts],
        }
    }

    /// Lets the harts work and save. The counts are OC-PMEM's.
    #[must_use]
    pub fn run(mut self, parameters: &Parameters) -> Outcome {
        run_beside(&mut self, parameters)
    }

    /// Lines of a checkpoint.
    fn size(&self, end: u64) -> u64 {
        let before = |end: u64| u128::from(end) * u128::from(self.lines) / u128::from(self.ends);
        u64::try_from(before(end + 1) - before(end)).unwrap_or(u64::MAX)
    }
}

impl Source for Checkpoints {
    fn harts(&self) -> usize {
        self.harts.len()
    }

    fn next(&mut self, hart: usize) -> Option<Request> {
        let mut at = *self.harts.get(hart)?;
        if at.end == self.ends {
            return None;
        }
        let place = line(hart as u64 * LOG + at.saved % LOG, true);
        let work = if at.step == 0 { self.work } else { 0 };
        let made = match at.step {
            step if step == 2 * self.size(at.end) => {
                at.end += 1;
                request(Kind::Fence, 0, 1)
            }
            step if step.is_multiple_of(2) => request(Kind::Store, place, work + LOOP + LOADS),
            _ => {
                at.saved += 1;
                request(Kind::Flush, place, STORES + 1)
            }
        };
        at.step = match made.kind {
            Kind::Fence => 0,
            _ => at.step + 1,
        };
        self.harts[hart] = at;
        Some(made)
    }

    fn instructions(&self, _hart: usize) -> u64 {
        self.ends * (self.work + 1) + self.lines * COPY
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(mut source: impl Source, sets: &[&str]) -> Outcome {
        let mut parameters = Parameters::default();
        (sets.iter()).for_each(|set| parameters.set(set).expect("a parameter"));
        run_beside(&mut source, &parameters)
    }

    /// A copy writes each line once to where it goes, and reads it there before.
    #[test]
    fn each_line_is_copied_once() {
        let saved = of(Transfer::new(Direction::Save, 2, 500), &[]);
        assert_eq!((saved.counts.reads, saved.counts.writes), (1000, 1000));
        assert_eq!(saved.counts.flushes, 2, "a fence of each hart");
        assert_eq!(saved.instructions, 2 * (500 * 20 + 1));
        let restored = of(Transfer::new(Direction::Restore, 2, 500), &[]);
        assert_eq!((restored.counts.reads, restored.counts.writes), (1000, 0));
        assert!(restored.time < saved.time);
    }

    /// Every memory's time counts, and so does the clock.
    #[test]
    fn a_slower_memory_copies_slower() {
        let time = |sets: &[&str]| of(Transfer::new(Direction::Save, 8, 500), sets).settled;
        let base = time(&[]);
        for slower in ["write=8.8", "read=3", "dram=100", "clock=0.1"] {
            assert!(time(&[slower]) > base, "{slower}");
        }
    }

    #[test]
    fn sizes_add_up_to_all_lines() {
        let source = Checkpoints::new(1, 10, 7, 24);
        let sizes: Vec<_> = (0..7).map(|end| source.size(end)).collect();
        assert_eq!(sizes.iter().sum::<u64>(), 24);
        assert!(sizes.iter().all(|size| (3..=4).contains(size)), "{sizes:?}");
    }

    proptest! {
        /// A checkpoint waits for its own lines at least, and all of its instructions are executed.
        #[test]
        fn a_checkpoint_is_no_faster_than_its_devices(
            harts in 1_usize..5, work in 0_u64..500, ends in 1_u64..40, size in 1_u64..9,
        ) {
            let outcome = of(Checkpoints::new(harts, work, ends, ends * size), &[]);
            let (flushed, written) = (outcome.counts.flushes, outcome.counts.writes);
            prop_assert_eq!((flushed, written), (harts as u64 * ends, harts as u64 * ends * size));
            prop_assert_eq!(outcome.instructions, harts as u64 * (ends * (work + 1) + 20 * ends * size));
            // A write of 246 ns for each checkpoint, and cycles of 2.5 ns.
            let least = ends * 246_000 + 2_500 * ends * work;
            prop_assert!(outcome.time.0 >= least, "{} of {least}", outcome.time.0);
            let more = of(Checkpoints::new(harts, work, ends, ends * (size + 8)), &[]);
            prop_assert!(more.time > outcome.time);
        }
    }
}
