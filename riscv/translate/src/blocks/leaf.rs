//! Leaves of the OS's tables.

use arrayvec::ArrayVec;
use poorwill_hart::page_entry::{self, Intent};
use poorwill_memory::PAGE_BYTES;

use crate::hart::VirtualHart;
use crate::host::Host;

/// log2 of the bytes of a page.
pub(super) const PAGE_SHIFT: u8 = PAGE_BYTES.ilog2() as u8;

/// Returns whether a page's leaf has an address. A fence of one address means all of its leaf.
/// `shift`: log2 of the leaf's bytes.
pub(super) fn has(page: u64, shift: u8, address: u64) -> bool {
    (page ^ address) >> shift == 0
}

/// The parts of the address space in which leaves lie, by a hash of large parts. Most fences mean others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Regions(u64);

impl Regions {
    /// log2 of the bytes of a part.
    const SHIFT: u8 = 30;

    fn bit(address: u64) -> u64 {
        1 << (address >> Self::SHIFT & 63)
    }

    /// Notes a page, with log2 of its leaf's bytes.
    pub(super) fn note(&mut self, page: u64, shift: u8) {
        self.0 |= match shift {
            ..=Self::SHIFT => Self::bit(page),
            _ => u64::MAX,
        };
    }

    /// Returns false if no noted leaf has the address.
    pub(super) fn may_have(self, address: u64) -> bool {
        self.0 & Self::bit(address) != 0
    }
}

/// Where the OS's tables map code.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeAt {
    pub(super) physical: u64,
    /// log2 of the bytes of the leaf.
    pub(super) shift: u8,
    /// Translated code may store there by a window.
    pub(super) is_unwatched: bool,
    /// The next page is of the same leaf, and both are of the text that is closed. The text has whole
    /// leaves, so that it has both or none as long as the leaf stays.
    pub(super) goes_on: bool,
}

/// A leaf that maps code in all address spaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeLeaf {
    /// Its first address, and the physical one.
    pub(super) start: u64,
    pub(super) physical: u64,
    pub(super) shift: u8,
}

impl CodeLeaf {
    /// The physical address of an address of the leaf.
    pub(super) fn place(&self, address: u64) -> Option<u64> {
        let is_there = has(self.start, self.shift, address);
        is_there.then(|| self.physical + (address - self.start))
    }
}

/// Leaves that were looked up while the tables did not change.
#[derive(Debug, Default)]
pub(super) struct CodeLeaves {
    known: ArrayVec<CodeLeaf, 8>,
    /// Index of the leaf that was found last.
    last: usize,
}

impl CodeLeaves {
    /// The leaf of code at an address; `None` if the OS maps none there.
    pub(super) fn find(
        &mut self,
        hart: &mut VirtualHart,
        address: u64,
        host: &impl Host,
    ) -> Option<CodeLeaf> {
        // Most pages are of the leaf of the one before.
        let before = self.known.get(self.last).copied();
        if before.is_some_and(|leaf| leaf.place(address).is_some()) {
            return before;
        }
        let mut known = self.known.iter();
        if let Some(place) = known.position(|leaf| leaf.place(address).is_some()) {
            self.last = place;
            return Some(self.known[place]);
        }
        let found = hart.code_leaf(address, host)?;
        // Small ones have no other page. The first large ones are of the OS's image, with most code.
        if found.shift > PAGE_SHIFT && !self.known.is_full() {
            self.known.push(found);
        }
        Some(found)
    }
}

impl VirtualHart {
    /// The leaf of an address, if its page may have translated code: it is in memory, and in all
    /// address spaces.
    pub(super) fn code_leaf(&mut self, address: u64, host: &impl Host) -> Option<CodeLeaf> {
        let place = self.translate(address, Intent::Fetch, host).ok()?;
        let (flags, shift) = self.leaf_of(address)?;
        let is_code = place.is_memory && flags & page_entry::GLOBAL != 0;
        let offset = address & ((1 << shift) - 1);
        is_code.then(|| CodeLeaf {
            start: address - offset,
            physical: place.physical - offset,
            shift,
        })
    }
}
