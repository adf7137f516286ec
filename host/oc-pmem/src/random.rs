//! Random accesses to a footprint: what figure 2b measures.

use crate::machine::Machine;
use crate::parameters::{ParameterError, Parameters};
use crate::request::{Kind, Request, Source};
use crate::run::run;
use crate::time::Time;

/// Accesses that fill the machine's buffers, and that are measured after.
const ACCESSES: u64 = 20_000;

/// A hart that accesses random lines, one after the other.
#[derive(Clone, Copy, Debug)]
struct Random {
    kind: Kind,
    footprint: u64,
    left: u64,
    state: u64,
}

impl Source for Random {
    fn harts(&self) -> usize {
        1
    }

    fn next(&mut self, _hart: usize) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        // Xorshift (Marsaglia 2003), with a period of 2^64 - 1.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        Some(Request {
            kind: self.kind,
            line: u32::try_from((self.state >> 8) % self.footprint).unwrap_or_default(),
            instructions: 0,
        })
    }

    fn instructions(&self, _hart: usize) -> u64 {
        0
    }
}

/// The mean time of random accesses to the first `footprint` lines of a machine, when its buffers have
/// what they can: of loads that wait for each other, or of write-backs for which the hart waits.
///
/// # Errors
///
/// The parameters cannot have a window of zero.
pub fn latency(
    machine: Machine,
    parameters: &Parameters,
    kind: Kind,
    footprint: u64,
) -> Result<Time, ParameterError> {
    let mut parameters = parameters.clone();
    parameters.set("window=0")?;
    let of = |accesses| {
        let mut source = Random {
            kind,
            footprint: footprint.max(1),
            left: accesses,
            state: 0x2545_f491_4f6c_dd1d,
        };
        run(&mut source, machine, &parameters).time
    };
    // Both runs begin alike.
    Ok(Time((of(2 * ACCESSES) - of(ACCESSES)).0 / ACCESSES))
}
