//! The virtual TLB of a hart, tagged by address space.

use poorwill_hart::page_entry;
use poorwill_memory::PAGE_BYTES;

/// Number of entries, a power of two.
const ENTRIES: usize = 128;

/// The translation of a page. Each hart of the OS has many, so it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Translation {
    /// The virtual page; odd in an empty entry.
    pub(crate) page: u64,
    /// The physical page.
    pub(crate) physical: u64,
    /// Flags of the leaf.
    pub(crate) flags: u8,
    /// log2 of the leaf's bytes: a fence of one of its addresses drops all its pages.
    pub(crate) shift: u8,
    /// The address space.
    pub(crate) space: u16,
    /// The physical page is the OS's memory.
    pub(crate) is_memory: bool,
}

impl Translation {
    fn is_global(&self) -> bool {
        u64::from(self.flags) & page_entry::GLOBAL != 0
    }
}

const EMPTY: Translation = Translation {
    page: 1,
    physical: 0,
    flags: 0,
    shift: 0,
    space: 0,
    is_memory: false,
};

#[derive(Clone, Debug)]
pub(crate) struct Tlb([Translation; ENTRIES]);

impl Tlb {
    pub(crate) const fn new() -> Self {
        Tlb([EMPTY; ENTRIES])
    }

    fn place(page: u64) -> usize {
        (page / PAGE_BYTES) as usize % ENTRIES
    }

    /// The translation of a page in an address space.
    pub(crate) fn find(&self, page: u64, space: u16) -> Option<&Translation> {
        let found = &self.0[Self::place(page)];
        let is_its = found.space == space || found.is_global();
        (found.page == page && is_its).then_some(found)
    }

    pub(crate) fn keep(&mut self, translation: Translation) {
        self.0[Self::place(translation.page)] = translation;
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(EMPTY);
    }

    /// Drops translations of an address or of all, in one address space (without global ones) or in
    /// all (12.2.1).
    pub(crate) fn drop_of(&mut self, address: Option<u64>, space: Option<u64>) {
        for found in &mut self.0 {
            let is_there = |address: u64| (address ^ found.page) >> found.shift == 0;
            let is_in = |space: u64| u64::from(found.space) == space && !found.is_global();
            let is_filled = found.shift != 0;
            if is_filled && address.is_none_or(is_there) && space.is_none_or(is_in) {
                *found = EMPTY;
            }
        }
    }
}
