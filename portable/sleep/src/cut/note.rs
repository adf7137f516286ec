//! What the next start is to say if the power goes where no cut is possible.

use super::find::last_sequence;
use super::layout::Place;
use super::line::Line;
use super::reason::CutReason;
use super::{CutMemory, put};

/// Writes down why the next start boots cold, if nothing else is written down by then.
/// `number` is the vault's number of the next cut, on a machine with one.
pub fn note(memory: &impl CutMemory, number: Option<u64>, reason: CutReason) {
    let sequence = number.unwrap_or_else(|| last_sequence(memory) + 1);
    put(memory, Place::Begun, &Line::begun(sequence, reason));
}

/// Takes that back: the next start will know nothing of it.
pub fn take_back(memory: &impl CutMemory) {
    put(memory, Place::Begun, &Line::EMPTY);
}
