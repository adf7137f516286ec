//! Memory of a test, which stands for a machine's.

extern crate std;

mod linux;

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

pub use linux::{Dump, FakeSpace, Offsets, Places, Rights, SmallLinux};

use crate::{MemoryMap, OsMemory, OsPage, PAGE_BYTES, Page, PhysRange, to_usize};

/// The contents of pages that are not OS memory.
const GAP: Page = Page([0x5a5a_0000_a5a5_ffff; 512]);

/// OS memory in several ranges, with other pages between them.
#[derive(Debug)]
pub struct FakeMemory {
    /// Only accessed through this pointer, because devices access it, too.
    pages: *mut [Page],
    os: OsMemory,
}

impl FakeMemory {
    /// Zeroed ranges with the page counts in `ranges`, each between pages that do not
    /// belong to the OS.
    ///
    /// # Panics
    ///
    /// If there are too many ranges, or no pages.
    #[must_use]
    pub fn new(ranges: &[u64]) -> Self {
        let total: u64 = ranges.iter().map(|pages| pages + 1).sum();
        let pages = Box::into_raw(vec![GAP; to_usize(total) + 1].into_boxed_slice());
        let base = pages.cast::<Page>().expose_provenance() as u64;
        let mut next = base + PAGE_BYTES;
        let ranges: Vec<PhysRange> = ranges
            .iter()
            .map(|pages| {
                let range = PhysRange::new(next, pages * PAGE_BYTES);
                next = range.end + PAGE_BYTES;
                range
            })
            .collect();
        let map = MemoryMap::new(&ranges, &[]).expect("ranges that can be");
        // SAFETY: the pages are allocated, their provenance is exposed, and
        // they are used through nothing but this `FakeMemory`.
        let os = unsafe { OsMemory::new(map) };
        let mut memory = FakeMemory { pages, os };
        for index in 0..memory.os.pages() {
            memory.set(index, &Page::ZERO);
        }
        memory
    }

    /// The memory, for the firmware.
    #[must_use]
    pub fn os(&mut self) -> &mut OsMemory {
        &mut self.os
    }

    /// Changes a page.
    ///
    /// # Panics
    ///
    /// If there is no such page.
    pub fn set(&mut self, index: u64, page: &Page) {
        let at = self.page(index).address();
        let pointer = core::ptr::with_exposed_provenance_mut::<Page>(to_usize(at));
        // SAFETY: the page is one of `pages`, and `&mut self` excludes readers.
        unsafe { pointer.write(page.clone()) }
    }

    /// Changes bytes, possibly in several pages.
    ///
    /// # Panics
    ///
    /// If they are not all OS memory.
    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        assert!(self.os.contains(address, bytes.len() as u64));
        let pointer = core::ptr::with_exposed_provenance_mut::<u8>(to_usize(address));
        // SAFETY: the bytes lie in `pages`, and `&mut self` excludes readers.
        unsafe { pointer.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
    }

    /// A copy of all pages of OS memory.
    #[must_use]
    pub fn contents(&self) -> Vec<Page> {
        self.os
            .iter()
            .map(|(_, page)| self.os.page(page).clone())
            .collect()
    }

    /// Whether only OS memory was written.
    #[must_use]
    pub fn gaps_are_intact(&self) -> bool {
        // SAFETY: the pages are allocated, and no code writes them during this borrow.
        let pages = unsafe { &*self.pages };
        pages.iter().all(|page| {
            let address = core::ptr::from_ref(page).addr() as u64;
            self.os.contains(address, PAGE_BYTES) || *page == GAP
        })
    }

    fn page(&self, index: u64) -> OsPage {
        self.os.at(index).expect("a page that exists")
    }
}

impl Drop for FakeMemory {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer from a box, and it is not used again.
        drop(unsafe { Box::from_raw(self.pages) });
    }
}
