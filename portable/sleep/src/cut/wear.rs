//! The registers of a memory controller that levels wear. They map each address to memory cells
//! (LightPC, sections V-A and VIII: start, gap, a count of writes, and the seed of a randomizer;
//! Start-Gap moves one line after a fixed number of writes).
//!
//! A power-off clears them, and memory that they map cannot be read without them. So no hart writes
//! to that memory after the registers are saved, or reads it before they are restored. The record,
//! the firmware and the files that a loader loads earlier lie elsewhere.

use arrayvec::ArrayVec;

use super::layout::{Place, WEAR_LINES};
use super::line::{Line, SAYS_WORDS};
use super::memory::{CutMemory, put};
use super::misfit::Misfit;
use super::reason::CutReason;

/// The most words of 64 bits that the registers of all controllers have. LightPC's have less
/// than 64 bytes for terabytes of memory.
pub const MAX_WEAR_WORDS: usize = WEAR_LINES * SAYS_WORDS;

/// The words of the registers, in the order of their addresses; empty on a machine without them.
pub type WearWords = ArrayVec<u64, MAX_WEAR_WORDS>;

/// Number of lines with that many words.
pub(super) const fn lines(words: usize) -> usize {
    words.div_ceil(SAYS_WORDS)
}

/// Writes the words into the record of a cut.
pub(super) fn save(memory: &impl CutMemory, sequence: u64, words: &WearWords) {
    for (number, some) in words.chunks(SAYS_WORDS).enumerate() {
        let mut says = [0; SAYS_WORDS];
        says[..some.len()].copy_from_slice(some);
        put(memory, Place::Wear(number), &Line::wear(sequence, says));
    }
}

/// Notes in the record that its words do not map memory any more.
pub(super) fn forget(memory: &impl CutMemory) {
    put(memory, Place::Wear(0), &Line::EMPTY);
}

/// Reads `words` words from the record of a cut.
///
/// # Errors
///
/// [`CutReason::WearLost`].
pub(super) fn saved(
    memory: &impl CutMemory,
    sequence: u64,
    words: u64,
) -> Result<WearWords, CutReason> {
    let words = usize::try_from(words).ok();
    let words = words.filter(|words| *words <= MAX_WEAR_WORDS);
    let words = words.ok_or(Misfit::WearRegisters)?;
    let mut found = WearWords::new();
    for number in 0..lines(words) {
        let line = memory.line(Place::Wear(number)).read_wear();
        let (_, says) = line
            .filter(|(of, _)| *of == sequence)
            .ok_or(CutReason::WearLost)?;
        found.extend(says.into_iter().take(words - found.len()));
    }
    Ok(found)
}
