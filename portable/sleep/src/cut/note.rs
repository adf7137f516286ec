//! The reason that the next start gives if the power goes where no cut is possible.

use super::find::last_sequence;
use super::layout::Place;
use super::line::Line;
use super::reason::CutReason;
use super::{CutMemory, put};

/// Writes why the next start boots cold, unless another reason is written by then.
/// `number` is the vault's number of the next cut, on a machine with one.
pub fn note(memory: &impl CutMemory, number: Option<u64>, reason: CutReason) {
    let sequence = number.unwrap_or_else(|| last_sequence(memory) + 1);
    put(memory, Place::Begun, &Line::begun(sequence, reason));
}

/// Takes that reason back.
pub fn take_back(memory: &impl CutMemory) {
    put(memory, Place::Begun, &Line::EMPTY);
}
