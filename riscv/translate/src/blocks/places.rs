//! What the words of blocks belong to.

use super::cache::{Blocks, Found};
use super::region::{Block, CHUNK, Place};
use super::writer::FORWARD_WORDS;

impl Blocks<'_> {
    /// What an address of translated code belongs to.
    pub(super) fn place_of(&self, address: u64) -> Option<Found> {
        let first = self.address_of_word(0);
        let word = u32::try_from(address.checked_sub(first)? / 4).ok()?;
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
        // It may jump to the new block, in two words, before its first instruction.
        if block.live == 0 && (in_block as usize) < FORWARD_WORDS {
            return Some(Found {
                block: number,
                place: 0,
            });
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
    pub(super) fn place_at(&self, number: usize, pc: u64) -> Option<Found> {
        let block = self.index.blocks[..self.blocks].get(number)?;
        let at = u8::try_from(pc.wrapping_sub(block.pc) / 2).ok()?;
        if block.live == 0 || u16::from(at) >= block.halves {
            return None;
        }
        let inline = &self.places_of(block)[..block.inline.into()];
        let place = inline.partition_point(|place| place.at < at);
        let is_there = inline.get(place).is_some_and(|place| place.at == at);
        is_there.then_some(Found {
            block: number,
            place,
        })
    }
}

#[cfg(all(test, feature = "fake"))]
mod tests {
    use super::super::cache::CodeAt;
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

    #[test]
    fn a_dropped_block_jumps_before_its_first_instruction() {
        for counts in [false, true] {
            let thread = std::thread::Builder::new().stack_size(64 << 20);
            let thread = thread.spawn(move || drop_one(counts));
            thread.expect("a thread").join().expect("the test");
        }
    }
}
