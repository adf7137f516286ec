//! Instructions of the OS, read and decoded for one block.

use arrayvec::ArrayVec;
use poorwill_isa::{Format, Instruction, Operation, expand, is_long};
use poorwill_memory::PAGE_BYTES;

use super::leaf::CodeAt;
use super::region::Index;
use crate::host::Host;

/// Maximum number of half-words of a block.
pub(super) const MOST_HALVES: usize = 120;

/// Double words with this number of half-words, and others before them.
pub(super) const MOST_SOURCES: usize = MOST_HALVES / 4 + 1;

/// Double words that are read at once: most blocks are short.
const READ_WORDS: usize = 4;

/// How far a block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// Up to a branch, or to an address where a block begins: no instruction is translated that has
    /// not run, and few are translated twice.
    Short,
    /// Through branches up to a jump: what follows a branch needs no jump, and no further check of the
    /// stack.
    Long,
}

/// An instruction, and its 32-bit encoding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded {
    pub(super) instruction: Instruction,
    pub(super) bits: u32,
}

/// The OS's instructions from an address on.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) pc: u64,
    at: CodeAt,
    /// Aligned double words with them.
    words: ArrayVec<u64, MOST_SOURCES>,
    instructions: ArrayVec<Decoded, MOST_HALVES>,
}

impl Code {
    /// No instruction yet. The address `pc` is at a place.
    pub(super) fn new(pc: u64, at: CodeAt) -> Self {
        Code {
            pc,
            at,
            words: ArrayVec::new(),
            instructions: ArrayVec::new(),
        }
    }

    /// Reads the instructions of a block, which begin in one page. `index`: where other blocks begin.
    pub(super) fn read(&mut self, extent: Extent, index: &Index, host: &impl Host) {
        let mut at = 0;
        while !self.instructions.is_full() && !self.has_page_end(at) {
            let begins = at > 0 && extent == Extent::Short;
            if begins && index.find(self.address(at)).is_some() {
                return;
            }
            self.read_words(at + 2, host);
            let Some((instruction, bits)) = instruction_of(&self.words, self.skipped(), at) else {
                return;
            };
            self.instructions.push(Decoded { instruction, bits });
            if ends(&instruction, extent) {
                return;
            }
            at += usize::from(instruction.length / 2);
        }
    }

    /// Returns whether a half-word is in another page than the first one.
    fn has_page_end(&self, at: usize) -> bool {
        self.pc % PAGE_BYTES + 2 * at as u64 >= PAGE_BYTES
    }

    /// Returns whether the last of a number of half-words is in the next page.
    pub(super) fn crosses(&self, halves: usize) -> bool {
        halves > 0 && self.has_page_end(halves - 1)
    }

    /// Reads double words up to a half-word, as far as they are in the page, or in the first one of the
    /// next.
    fn read_words(&mut self, end: usize, host: &impl Host) {
        let known = self.words.len();
        if self.skipped() + end <= 4 * known {
            return;
        }
        let start = self.start();
        let in_page = (PAGE_BYTES - start % PAGE_BYTES) as usize / 8 + usize::from(self.at.goes_on);
        let most = in_page.min(MOST_SOURCES).min(known + READ_WORDS);
        while self.words.len() < most {
            self.words.push(0);
        }
        host.load_words(start + 8 * known as u64, &mut self.words[known..]);
    }

    /// The physical address of the first double word.
    pub(super) fn start(&self) -> u64 {
        self.at.physical & !7
    }

    /// Half-words of the first double word before the first instruction.
    fn skipped(&self) -> usize {
        self.pc as usize % 8 / 2
    }

    /// The double words with the first half-words.
    pub(super) fn words_of(&self, halves: usize) -> &[u64] {
        &self.words[..(self.skipped() + halves).div_ceil(4)]
    }

    /// The instructions.
    pub(super) fn instructions(&self) -> &[Decoded] {
        &self.instructions
    }

    /// Address of a half-word.
    pub(super) fn address(&self, at: usize) -> u64 {
        self.pc.wrapping_add(2 * at as u64)
    }
}

/// Returns whether a block does not go on after an instruction.
fn ends(instruction: &Instruction, extent: Extent) -> bool {
    let operation = instruction.operation;
    match operation.format() {
        Format::J => true,
        Format::B => extent == Extent::Short,
        _ => operation == Operation::Jalr,
    }
}

/// The instruction at a half-word of double words, and its 32-bit encoding; `None` for an unknown one,
/// or one that is not here as a whole. `skipped`: half-words before the first instruction.
#[inline]
pub(super) fn instruction_of(
    words: &[u64],
    skipped: usize,
    at: usize,
) -> Option<(Instruction, u32)> {
    let place = at + skipped;
    let word = words.get(place / 4).filter(|_| at < MOST_HALVES)?;
    let low = (word >> (16 * (place % 4))) as u32;
    let (bits, length) = if !is_long(low) {
        (expand(low as u16)?, 2)
    } else if place % 4 < 3 {
        (low, 4)
    } else {
        let next = words.get(place / 4 + 1)?;
        ((*next as u32) << 16 | low & 0xffff, 4)
    };
    Some((Instruction::decode_expanded(bits, length)?, bits))
}
