//! Blocks by the addresses of their first instructions.
//!
//! A block is short at first. One that an interrupt finds at work is made anew as a long one. Interrupts
//! come with time, and so they find the blocks that take most of it.

use poorwill_memory::PAGE_BYTES;

use super::cache::Blocks;
use super::code::Extent;
use super::found::Found;
use super::region::{Block, HEADS, Index, Place};

impl Index {
    /// The list with the block of an address.
    pub(super) fn head(pc: u64) -> usize {
        ((pc / 2) ^ (pc >> 13)) as usize % HEADS
    }

    /// The live block that begins at an address.
    pub(super) fn find(&self, pc: u64) -> Option<usize> {
        self.find_by(pc, |block| block.live != 0)
    }

    /// How far a new block at an address goes.
    pub(super) fn extent(&self, pc: u64) -> Extent {
        match self.find_by(pc, |block| block.is_long != 0) {
            Some(_) => Extent::Long,
            None => Extent::Short,
        }
    }

    fn find_by(&self, pc: u64, is_meant: impl Fn(&Block) -> bool) -> Option<usize> {
        let mut next = self.heads[Self::head(pc)];
        while let Some(number) = usize::from(next).checked_sub(1) {
            let block = &self.blocks[number];
            if block.pc == pc && is_meant(block) {
                return Some(number);
            }
            next = block.next;
        }
        None
    }
}

impl Blocks<'_> {
    /// Notes that an interrupt has found a block at work. Returns whether the block is dropped.
    pub(super) fn note_interrupt(&mut self, number: usize) -> bool {
        let block = &mut self.index.blocks[number];
        let grows = block.live != 0 && block.is_long == 0;
        if grows {
            block.is_long = 1;
            self.drop_block(number);
        }
        grows
    }

    /// Lets exits of the blocks of a page go to a long block of it, and not to the short one before. Others
    /// go there by way of that.
    pub(super) fn relink(&mut self, new: usize) {
        let pc = self.index.blocks[new].pc;
        if self.index.blocks[new].is_long == 0 || self.options.is_checked() {
            return;
        }
        let Some(page) = self.recent_page(pc - pc % PAGE_BYTES) else {
            return;
        };
        let mut next = self.index.pages[page].first;
        while let Some(block) = usize::from(next).checked_sub(1) {
            next = self.index.blocks[block].next_of_page;
            let Block { inline, places, .. } = self.index.blocks[block];
            // The last of the first ones may be an exit, too.
            for place in inline.saturating_sub(1).into()..places.into() {
                let exit = Found { block, place };
                let is_exit = self.at(exit).1.at == Place::LEAVES;
                if is_exit && self.next_of(exit) == pc {
                    self.link(exit, new);
                }
            }
        }
    }
}
