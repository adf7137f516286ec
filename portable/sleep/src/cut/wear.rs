//! The registers of a memory controller that levels wear: they say where in the memory's
//! cells each address is (LightPC, sections V-A and VIII: start, gap, a count of writes, and
//! the seed of a randomizer; Start-Gap moves one line behind every so many writes).
//!
//! They are lost with the power, and memory that they map is of no use without them. So
//! nothing that they map is written once they are saved, and nothing is read before they are
//! put back: the record, the firmware and what is loaded before it lie elsewhere.

use arrayvec::ArrayVec;

use super::layout::{Place, WEAR_LINES};
use super::line::{Line, SAYS_WORDS};
use super::misfit::Misfit;
use super::reason::CutReason;
use super::{CutMemory, put};

/// How many words of 64 bits the registers of all controllers have at most: LightPC's take
/// less than 64 bytes for terabytes of memory.
pub const MAX_WEAR_WORDS: usize = WEAR_LINES * SAYS_WORDS;

/// What they hold, in the order of their addresses; none on a machine without.
pub type WearWords = ArrayVec<u64, MAX_WEAR_WORDS>;

/// Writes them into the record of that cut.
pub(super) fn save(memory: &impl CutMemory, sequence: u64, words: &WearWords) {
    for (number, some) in words.chunks(SAYS_WORDS).enumerate() {
        let mut says = [0; SAYS_WORDS];
        says[..some.len()].copy_from_slice(some);
        put(memory, Place::Wear(number), &Line::wear(sequence, says));
    }
}

/// Has the record say that they are not those of its memory any more.
pub(super) fn forget(memory: &impl CutMemory) {
    put(memory, Place::Wear(0), &Line::EMPTY);
}

/// Reads so many of them from the record of that cut.
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
    for number in 0..words.div_ceil(SAYS_WORDS) {
        let line = memory.line(Place::Wear(number)).read_wear();
        let (_, says) = line
            .filter(|(of, _)| *of == sequence)
            .ok_or(CutReason::WearLost)?;
        found.extend(says.into_iter().take(words - found.len()));
    }
    Ok(found)
}
