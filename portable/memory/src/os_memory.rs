use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::memory_map::{MemoryMap, PhysRange};
use crate::page::{PAGE_BYTES, PAGE_WORDS, Page};
use crate::to_usize;

/// Access to the OS's memory.
///
/// It cannot be cloned: only one value has access at a time.
#[derive(Debug)]
pub struct OsMemory {
    map: MemoryMap,
}

/// The address of a page of OS memory.
///
/// Only [`OsMemory`] creates one, so DMA to or from this address cannot touch the
/// firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OsPage(pub(crate) u64);

impl OsPage {
    /// The page's physical address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0
    }
}

impl Deref for OsMemory {
    type Target = MemoryMap;

    fn deref(&self) -> &MemoryMap {
        &self.map
    }
}

impl OsMemory {
    /// Access to the memory of `map`.
    ///
    /// # Safety
    ///
    /// The ranges of `map` must be memory, mapped at its physical address. While this
    /// value exists, no other code and no other `OsMemory` may access them.
    /// [`OsMemory::page`] reads the memory; [`OsMemory::zero`] and a medium's DMA write
    /// it.
    #[must_use]
    pub unsafe fn new(map: MemoryMap) -> Self {
        OsMemory { map }
    }

    /// The page with this index; `None` from [`MemoryMap::pages`] on.
    #[must_use]
    pub fn at(&self, index: u64) -> Option<OsPage> {
        let mut left = index;
        for range in self.map.ranges() {
            let pages = range.length() / PAGE_BYTES;
            if left < pages {
                return Some(OsPage(range.start + left * PAGE_BYTES));
            }
            left -= pages;
        }
        None
    }

    /// The page with the byte at `address`; `None` if that is not OS memory.
    #[must_use]
    pub fn page_at(&self, address: u64) -> Option<OsPage> {
        self.contains(address, 1)
            .then_some(OsPage(address / PAGE_BYTES * PAGE_BYTES))
    }

    /// The index of a page.
    ///
    /// # Panics
    ///
    /// If the page belongs to another `OsMemory`.
    #[must_use]
    pub fn index_of(&self, page: OsPage) -> u64 {
        let mut first = 0;
        for range in self.map.ranges() {
            if range.contains(page.address()) {
                return first + (page.address() - range.start) / PAGE_BYTES;
            }
            first += range.length() / PAGE_BYTES;
        }
        panic!("page {:#x} belongs to another memory", page.address());
    }

    /// All pages with their indices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, OsPage)> + '_ {
        let addresses = self.map.ranges().iter().flat_map(|range| {
            (0..range.length() / PAGE_BYTES).map(|page| range.start + page * PAGE_BYTES)
        });
        (0..).zip(addresses.map(OsPage))
    }

    /// All pages: first those from `address` on, ascending, then those below it.
    pub fn iter_from(&self, address: u64) -> impl Iterator<Item = OsPage> + '_ {
        let split = address / PAGE_BYTES * PAGE_BYTES;
        let above = self.map.ranges().iter().map(move |range| PhysRange {
            start: range.start.max(split),
            end: range.end,
        });
        let below = self.map.ranges().iter().map(move |range| PhysRange {
            start: range.start,
            end: range.end.min(split),
        });
        above.chain(below).flat_map(|range| {
            let pages = range.length() / PAGE_BYTES;
            (0..pages).map(move |page| OsPage(range.start + page * PAGE_BYTES))
        })
    }

    /// The contents of the page.
    ///
    /// No DMA into the page may be in progress.
    #[must_use]
    #[inline]
    pub fn page(&self, page: OsPage) -> &Page {
        let pointer = core::ptr::with_exposed_provenance::<Page>(to_usize(page.address()));
        // SAFETY: an `OsPage` is a page-aligned address in the memory that the
        // caller of `OsMemory::new` vouched for; any bit pattern is a `Page`.
        unsafe { &*pointer }
    }

    /// The page as words that several harts may read and write.
    ///
    /// No DMA into the page may be in progress, and the caller must hold no reference
    /// from [`OsMemory::page`] while it writes.
    #[must_use]
    #[inline]
    pub fn words(&self, page: OsPage) -> &PageWords {
        let pointer = core::ptr::with_exposed_provenance::<PageWords>(to_usize(page.address()));
        // SAFETY: as in `page`; atomics may be written through shared
        // references, and have the layout of their integers.
        unsafe { &*pointer }
    }

    /// Zeroes the page. A page of zeros is only read, which is cheaper if reads do not
    /// allocate memory. Several harts may zero different pages, under the conditions of
    /// [`OsMemory::words`].
    #[inline]
    pub fn zero(&self, page: OsPage) {
        if !self.page(page).is_zero() {
            for word in self.words(page) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// A page as words that several harts may read and write.
pub type PageWords = [AtomicU64; PAGE_WORDS];
