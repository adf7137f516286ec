use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use poorwill_memory::{PAGE_WORDS, Page};

use super::memory::physical_address;

/// Words of memory that a device accesses independently, borrowed for that time. Like all
/// NVMe data they are little-endian.
pub(super) struct Shared<'a> {
    first: NonNull<u64>,
    words: usize,
    memory: PhantomData<&'a mut [Page]>,
}

impl<'a> Shared<'a> {
    pub(super) const PAGE_BYTES: usize = 8 * PAGE_WORDS;

    pub(super) fn new(pages: &'a mut [Page]) -> Self {
        for page in pages.iter_mut() {
            page.0.fill(0);
        }
        Shared {
            words: pages.len() * PAGE_WORDS,
            first: NonNull::from(pages).cast(),
            memory: PhantomData,
        }
    }

    /// The device's address of the word at `index`.
    pub(super) fn address(&self, index: usize) -> u64 {
        physical_address(self.word(index))
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> u64 {
        // SAFETY: `word` checks the index against the pages that `new` took. Only
        // this value and the device refer to them for `'a`.
        u64::from_le(unsafe { self.word(index).read_volatile() })
    }

    #[inline]
    pub(super) fn set(&mut self, index: usize, value: u64) {
        // SAFETY: as in `get`; `&mut self` excludes other writers here.
        unsafe { self.word(index).write_volatile(value.to_le()) }
    }

    fn word(&self, index: usize) -> *mut u64 {
        assert!(index < self.words, "word {index} of {}", self.words);
        self.first.as_ptr().wrapping_add(index)
    }
}

impl fmt::Debug for Shared<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} words at {:p}", self.words, self.first)
    }
}
