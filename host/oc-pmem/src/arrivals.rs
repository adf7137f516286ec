//! Requests that come at times of their own, and not by what memory has answered: an open loop.

use crate::machine::{AnyMemory, Machine};
use crate::memory::{Counts, Memory};
use crate::parameters::Parameters;
use crate::time::Time;

/// A request with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it comes.
    pub at: Time,
    /// The line's number in the machine's memory.
    pub line: u32,
    /// Whether it writes the line.
    pub is_write: bool,
}

/// Gives a machine's memory the arrivals, which come in the order of time; what it did.
pub fn serve(
    arrivals: impl IntoIterator<Item = Arrival>,
    machine: Machine,
    parameters: &Parameters,
) -> Counts {
    match machine.memory(parameters) {
        AnyMemory::InOrder(memory) => serve_by(memory, arrivals),
        AnyMemory::LightPc(memory) => serve_by(memory, arrivals),
        AnyMemory::PmemDimms(memory) => serve_by(memory, arrivals),
    }
}

fn serve_by(mut memory: impl Memory, arrivals: impl IntoIterator<Item = Arrival>) -> Counts {
    for Arrival { at, line, is_write } in arrivals {
        match is_write {
            true => memory.write(at, line),
            false => memory.read(at, line),
        };
    }
    memory.counts()
}
