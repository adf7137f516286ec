//! The reason for a cold boot after a power loss during work in which no cut is possible.

use super::find::last_sequence;
use super::layout::Place;
use super::line::Line;
use super::memory::{CutMemory, put};
use super::reason::CutReason;

/// Notes the reason for the next start's cold boot, unless the record has another reason by then.
/// `number` is the vault's number of the next cut, on a machine with a vault.
pub fn note(memory: &impl CutMemory, number: Option<u64>, reason: CutReason) {
    let sequence = number.unwrap_or_else(|| last_sequence(memory) + 1);
    put(memory, Place::Begun, &Line::begun(sequence, reason));
}

/// Removes the note.
pub fn take_back(memory: &impl CutMemory) {
    put(memory, Place::Begun, &Line::EMPTY);
}
