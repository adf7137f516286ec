//! Copies of the OS's memory with the instructions of blocks. Blocks whose instructions have changed since
//! are dropped.
//!
//! Blocks are short and lie close to each other, so that a line of memory has parts of several. It is
//! compared once for all of them.

use arrayvec::ArrayVec;
use poorwill_memory::PAGE_BYTES;

use super::cache::Blocks;
use super::code::Code;
use super::region::{Block, CodePage, Index, LINE_HASH, LINE_WORDS, Line};
use super::writer::Full;
use crate::host::Host;

/// Bytes of a line.
const LINE_BYTES: u64 = 8 * LINE_WORDS as u64;

impl Line {
    /// Takes the double words that memory has now. Returns which of them are others than before, as bits.
    fn renew(&mut self, host: &impl Host) -> u32 {
        let before = self.words;
        host.load_words(self.physical, &mut self.words);
        let pairs = before.iter().zip(&self.words).enumerate();
        pairs
            .map(|(at, (old, new))| u32::from(old != new) << at)
            .sum()
    }
}

impl Index {
    /// The place of a line in the list by hash: its own, or the free one where it would be.
    fn place_of_line(&self, physical: u64) -> usize {
        let mut place = (physical / LINE_BYTES) as usize % LINE_HASH;
        while let Some(number) = usize::from(self.line_hash[place]).checked_sub(1) {
            if self.lines[number].physical == physical {
                break;
            }
            place = (place + 1) % LINE_HASH;
        }
        place
    }

    /// The number of a line, if it is kept.
    fn find_line(&self, physical: u64) -> Option<usize> {
        usize::from(self.line_hash[self.place_of_line(physical)]).checked_sub(1)
    }

    /// Returns whether a block has instructions in some double words of a line.
    fn has_words_of(&self, block: &Block, line: u64, words: u32) -> bool {
        let start = self.start_of(block);
        let end = start + 8 * block.source_words() as u64;
        let bits_before = |at: u64| (1 << (at.saturating_sub(line) / 8).min(LINE_WORDS as u64)) - 1;
        words & bits_before(end) & !bits_before(start) != 0
    }

    /// The physical address of the first double word with a block's instructions.
    fn start_of(&self, block: &Block) -> u64 {
        let page = &self.pages[usize::from(block.page)];
        (page.physical + block.pc % PAGE_BYTES) & !7
    }

    /// The double words with the instructions of a live block.
    #[cfg(feature = "check")]
    pub(super) fn source_of(&self, block: &Block) -> ArrayVec<u64, { super::code::MOST_SOURCES }> {
        let start = self.start_of(block);
        let addresses = (start..).step_by(8).take(block.source_words());
        let words = addresses.map_while(|at| {
            let line = self.find_line(at & !(LINE_BYTES - 1))?;
            Some(self.lines[line].words[(at % LINE_BYTES / 8) as usize])
        });
        words.collect()
    }
}

impl Blocks<'_> {
    /// Keeps the double words with the instructions of a new block. Those of others that have changed
    /// meanwhile are dropped.
    ///
    /// # Errors
    ///
    /// There is no room, or all blocks were dropped.
    pub(super) fn keep_source(
        &mut self,
        code: &Code,
        halves: usize,
        host: &impl Host,
    ) -> Result<(), Full> {
        let generation = self.generation;
        let start = code.start();
        for (word, at) in code.words_of(halves).iter().zip((start..).step_by(8)) {
            let physical = at & !(LINE_BYTES - 1);
            let number = match self.index.find_line(physical) {
                Some(number) => number,
                None => self.add_line(physical, host)?,
            };
            let place = (at % LINE_BYTES / 8) as usize;
            let kept = &mut self.index.lines[number].words[place];
            if *kept != *word {
                *kept = *word;
                self.drop_with(physical, 1 << place);
            }
        }
        match self.generation == generation {
            true => Ok(()),
            false => Err(Full),
        }
    }

    fn add_line(&mut self, physical: u64, host: &impl Host) -> Result<usize, Full> {
        let number = self.lines;
        let place = self.index.place_of_line(physical);
        let line = self.index.lines.get_mut(number).ok_or(Full)?;
        line.physical = physical;
        host.load_words(physical, &mut line.words);
        self.index.line_hash[place] = number as u16 + 1;
        self.lines += 1;
        Ok(number)
    }

    /// Drops the blocks with double words of a line that have changed in memory.
    fn check_line(&mut self, number: usize, host: &impl Host) {
        let line = &mut self.index.lines[number];
        let (physical, changed) = (line.physical, line.renew(host));
        if changed != 0 {
            self.drop_with(physical, changed);
        }
    }

    /// Drops the blocks whose instructions have changed.
    pub(super) fn check_lines(&mut self, host: &impl Host) {
        let mut next = 0;
        // All lines may be forgotten on the way.
        while let Some(lines) = self.index.lines[..self.lines].get(next..) {
            let is_changed = |line: &Line| !host.has_words(line.physical, &line.words);
            let Some(changed) = lines.iter().position(is_changed) else {
                break;
            };
            self.check_line(next + changed, host);
            next += changed + 1;
        }
    }

    /// Drops the blocks of a physical page whose instructions have changed.
    #[inline(never)]
    pub(super) fn check_source(&mut self, page: u64, host: &impl Host) {
        for line in (page..page + PAGE_BYTES).step_by(LINE_BYTES as usize) {
            if let Some(number) = self.index.find_line(line) {
                self.check_line(number, host);
            }
        }
    }

    /// Drops the blocks with some double words of a line.
    fn drop_with(&mut self, line: u64, words: u32) {
        let physical = line & !(PAGE_BYTES - 1);
        let mut numbers = ArrayVec::<usize, 8>::new();
        numbers.extend(self.pages_of(physical).take(numbers.capacity()));
        // A page with more addresses than this: all blocks of all pages go.
        if numbers.is_full() {
            return self.clear();
        }
        let is_meant = |index: &Index, block: &Block| index.has_words_of(block, line, words);
        for number in numbers {
            self.drop_of_page(number, is_meant);
            let CodePage { page, entered, .. } = self.index.pages[number];
            let [before, place] = [page, physical].map(|at| at.wrapping_sub(PAGE_BYTES));
            let other = self.number_of(before, place);
            if let Some(other) = other.filter(|_| entered != 0) {
                self.drop_of_page(other, is_meant);
            }
        }
    }
}
