//! Harts that write their caches back by reading other memory.

use alloc::vec;
use alloc::vec::Vec;

use crate::request::{Kind, Request, Source};

/// Instructions for each line that is read: the firmware reads every 32 bytes, and takes a load, an
/// addition and a branch for that.
const INSTRUCTIONS: u64 = 6;

/// Harts that read `reads` lines each, and so displace `dirty` dirty lines each. Each read displaces
/// one, until none is left. All harts read the same lines; no two have the same dirty line.
#[derive(Clone, Debug)]
pub struct Displacement {
    reads: u64,
    dirty: u64,
    /// Requests that each hart has made.
    made: Vec<u64>,
}

impl Displacement {
    /// All lines are read at least once for each dirty one: `reads` is raised to `dirty`.
    #[must_use]
    pub fn new(harts: usize, dirty: u64, reads: u64) -> Self {
        Displacement {
            reads: reads.max(dirty),
            dirty,
            made: vec![0; harts],
        }
    }

    /// A line's number. Memory takes numbers beyond its end modulo its size.
    fn line(number: u64) -> u32 {
        u32::try_from(number % (1 << 32)).unwrap_or_default()
    }
}

impl Source for Displacement {
    fn harts(&self) -> usize {
        self.made.len()
    }

    fn next(&mut self, hart: usize) -> Option<Request> {
        let (reads, dirty) = (self.reads, self.dirty);
        let made = self.made.get_mut(hart)?;
        let number = *made;
        *made += 1;
        let read = |line, instructions| Request {
            kind: Kind::Load,
            line: Self::line(line),
            instructions,
        };
        // A read, then the write-back of what it displaced, as long as there is any; a fence ends it.
        if number < 2 * dirty {
            let at = number / 2;
            return Some(match number.is_multiple_of(2) {
                true => read(at, INSTRUCTIONS),
                false => Request {
                    kind: Kind::WriteBack,
                    line: Self::line(reads + hart as u64 * dirty + at),
                    instructions: 0,
                },
            });
        }
        let at = number - dirty;
        let fence = Request {
            kind: Kind::Fence,
            line: 0,
            instructions: INSTRUCTIONS,
        };
        match at.cmp(&reads) {
            core::cmp::Ordering::Less => Some(read(at, INSTRUCTIONS)),
            core::cmp::Ordering::Equal => Some(fence),
            core::cmp::Ordering::Greater => None,
        }
    }

    fn instructions(&self, _hart: usize) -> u64 {
        (self.reads + 1) * INSTRUCTIONS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::machine::Machine;
    use crate::parameters::Parameters;
    use crate::run::{Outcome, run};

    fn outcome(harts: usize, dirty: u64, reads: u64) -> Outcome {
        let mut source = Displacement::new(harts, dirty, reads);
        run(&mut source, Machine::LightPc, &Parameters::default())
    }

    #[test]
    fn each_dirty_line_is_written_once() {
        let outcome = outcome(3, 100, 200);
        assert_eq!((outcome.counts.reads, outcome.counts.writes), (600, 300));
        assert_eq!(outcome.instructions, 3 * 201 * 6);
        assert_eq!(outcome.requests, 3 * (200 + 100 + 1));
        assert!(outcome.settled >= outcome.time);
    }

    proptest! {
        /// Neither twice the harts, nor twice the lines take less time. (A single line may: the lines
        /// after it meet other groups.)
        #[test]
        fn more_work_takes_longer(harts in 1_usize..5, dirty in 16_u64..300) {
            let settled = |harts, dirty| outcome(harts, dirty, 2 * dirty).settled;
            prop_assert!(settled(harts, dirty) < settled(harts, 2 * dirty));
            prop_assert!(settled(harts, dirty) < settled(2 * harts, dirty));
        }

        /// Devices program each line and its parity. So no machine is faster than all its groups.
        #[test]
        fn no_line_is_written_faster_than_the_devices_allow(harts in 1_usize..9, dirty in 100_u64..500) {
            let outcome = outcome(harts, dirty, 2 * dirty);
            let programs = outcome.counts.programs;
            let least = programs * 246_000 / 24;
            prop_assert!(outcome.settled.0 >= least, "{} {}", outcome.settled.0, least);
            prop_assert!(programs <= 2 * (outcome.counts.writes + outcome.counts.moves));
        }
    }
}
