//! What the words of blocks belong to.

use super::cache::Blocks;
use super::found::Found;
use super::region::{Block, CHUNK, Place};
use super::writer::FORWARD_WORDS;

impl Blocks<'_> {
    /// What an address of translated code belongs to.
    pub(super) fn place_of(&mut self, address: u64) -> Option<Found> {
        let first = self.address_of_word(0);
        let word = u32::try_from(address.checked_sub(first)? / 4).ok()?;
        let found = match self.recent_words.find(word) {
            Some(found) => found,
            None => {
                let found = self.search_word(word)?;
                self.recent_words.keep(word, found);
                found
            }
        };
        let block = &self.index.blocks[found.block];
        // A dropped one may jump to the new block, in two words, before its first instruction.
        let may_jump = block.live == 0 && ((word - block.word) as usize) < FORWARD_WORDS;
        Some(Found {
            place: if may_jump { 0 } else { found.place },
            ..found
        })
    }

    fn search_word(&self, word: u32) -> Option<Found> {
        if word as usize >= self.words {
            return None;
        }
        let blocks = &self.index.blocks[..self.blocks];
        let mut number = usize::from(self.index.chunks[word as usize / CHUNK]);
        while blocks.get(number + 1).is_some_and(|next| next.word <= word) {
            number += 1;
        }
        let block = blocks.get(number)?;
        let in_block = word.checked_sub(block.word)?;
        if in_block >= u32::from(block.words) {
            return None;
        }
        let places = self.places_of(block);
        let place = places.partition_point(|place| u32::from(place.word) <= in_block);
        Some(Found {
            block: number,
            place: place.checked_sub(1)?,
        })
    }

    pub(super) fn places_of(&self, block: &Block) -> &[Place] {
        &self.region.places[block.place as usize..][..block.places.into()]
    }

    /// The place itself, and its block.
    pub(super) fn at(&self, found: Found) -> (&Block, Place) {
        let block = &self.index.blocks[found.block];
        (block, self.places_of(block)[found.place])
    }

    /// Where the block goes on with an address; `None` if no instruction of it is there.
    pub(super) fn place_at(&mut self, number: usize, pc: u64) -> Option<Found> {
        let block = self.index.blocks[..self.blocks].get(number)?;
        let at = u8::try_from(pc.wrapping_sub(block.pc) / 2).ok()?;
        if block.live == 0 || u16::from(at) >= block.halves {
            return None;
        }
        let key = (number as u32) << u8::BITS | u32::from(at);
        if let Some(found) = self.recent_instructions.find(key) {
            return Some(found);
        }
        let inline = &self.places_of(block)[..block.inline.into()];
        let place = inline.partition_point(|place| place.at < at);
        let found = Found {
            block: number,
            place,
        };
        if inline.get(place)?.at != at {
            return None;
        }
        self.recent_instructions.keep(key, found);
        Some(found)
    }
}

#[cfg(all(test, feature = "fake"))]
mod tests {
    use super::super::leaf::CodeAt;
    use super::super::region::{Environment, Index, Region};
    use super::super::translate::Options;
    use super::*;
    use crate::fake::{FakeHost, MEMORY, RAM};
    use crate::fake_core::{ENVIRONMENT, MTIME};

    /// `addi a0, a0, 1` and `ret`.
    const CODE: [u32; 2] = [0x0015_0513, 0x0000_8067];

    /// Drops a block of the code.
    fn drop_one(counts: bool) {
        let mut index = Box::new(Index::empty());
        let mut region = Box::new(Region::empty());
        let mut environment = Environment::new(MTIME);
        let memory = (&mut *index, &mut *region, &mut environment);
        let options = Options {
            counts,
            ..Options::default()
        };
        let mut blocks = Blocks::new(memory, ENVIRONMENT, MEMORY, options);
        let host = FakeHost::new(1);
        host.put_code(RAM, &CODE);
        let at = CodeAt {
            physical: RAM,
            shift: 12,
            is_unwatched: false,
            goes_on: false,
        };
        let block = blocks.translate((RAM, &[0; 32]), at, &host);
        let block = block.expect("a block");
        let [start, second] = [0, 1].map(|place| Found { block, place });
        let first = blocks.address(start);
        let next = first + 4 * (1 + u64::from(counts));
        assert_eq!(blocks.place_of(first), Some(start));
        assert_eq!(blocks.place_of(next), Some(second));
        blocks.drop_block(block);
        for address in [first, first + 4] {
            assert_eq!(blocks.place_of(address), Some(start));
            assert_eq!(blocks.unreached(start, address), 0);
        }
    }

    /// Two `c.addi a0, 1` and `ret`.
    const OTHER: [u32; 2] = [0x0505_0505, 0x0000_8067];

    /// Asks for places of a block, and then for those of another one in its place.
    fn renew_one() {
        let mut index = Box::new(Index::empty());
        let mut region = Box::new(Region::empty());
        let mut environment = Environment::new(MTIME);
        let memory = (&mut *index, &mut *region, &mut environment);
        let mut blocks = Blocks::new(memory, ENVIRONMENT, MEMORY, Options::default());
        let host = FakeHost::new(1);
        let at = CodeAt {
            physical: RAM,
            shift: 12,
            is_unwatched: false,
            goes_on: false,
        };
        for (code, place) in [(CODE, 1), (OTHER, 2)] {
            host.put_code(RAM, &code);
            let block = blocks.translate((RAM, &[0; 32]), at, &host).expect("one");
            let found = Some(Found { block, place });
            let third = blocks.address_of_word(2);
            for _ in 0..2 {
                assert_eq!(blocks.place_of(third), found);
                assert_eq!(blocks.place_at(block, RAM + 4), found);
            }
            blocks.clear();
        }
    }

    fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
        let thread = std::thread::Builder::new().stack_size(64 << 20);
        let thread = thread.spawn(test).expect("a thread");
        thread.join().expect("the test");
    }

    #[test]
    fn a_dropped_block_jumps_before_its_first_instruction() {
        for counts in [false, true] {
            on_a_large_stack(move || drop_one(counts));
        }
    }

    #[test]
    fn places_are_those_of_the_present_blocks() {
        on_a_large_stack(renew_one);
    }
}
