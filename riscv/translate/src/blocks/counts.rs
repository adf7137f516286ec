//! Counts of the OS's instructions. A block counts those up to the next branch beforehand.

use super::cache::Blocks;
use super::found::Found;
use super::region::Place;
use super::translate::COUNT_WORDS;

impl Blocks<'_> {
    /// Instructions that a block has not counted if it goes on at a place.
    pub(super) fn uncounted(&self, found: Found) -> u64 {
        let (_, place) = self.at(found);
        match place.rest & Place::COUNTS {
            0 => place.rest.into(),
            _ => 0,
        }
    }

    /// Instructions that a block has counted, but not reached, at an address of it.
    pub(super) fn unreached(&self, found: Found, address: u64) -> u64 {
        let (block, place) = self.at(found);
        // A dropped block jumps to another one, and counts nothing.
        if block.live == 0 {
            return 0;
        }
        let before = address.wrapping_sub(self.address(found)) / 4;
        match place.rest & Place::COUNTS {
            0 => place.rest.into(),
            _ if before < COUNT_WORDS => 0,
            _ => u64::from(place.rest & !Place::COUNTS),
        }
    }
}
