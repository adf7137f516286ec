use poorwill_memory::{OsPage, PAGE_BYTES, PAGE_WORDS, Page, PhysRange, to_usize};

use super::MappedError;

/// The words that are loaded before they are stored: a cache line of most caches. With
/// fewer words, each store waits for its load.
const BATCH: usize = 8;

/// A range of persistent memory, with volatile accesses of aligned words. Several harts
/// may access different bytes of it at once.
#[derive(Clone, Copy, Debug)]
pub struct MappedMemory {
    range: PhysRange,
}

impl MappedMemory {
    /// The memory in `range` of CPU addresses.
    ///
    /// # Errors
    ///
    /// [`MappedError::Misaligned`], [`MappedError::TooSmall`].
    ///
    /// # Safety
    ///
    /// While the value or a copy of it is in use, the range must be memory (or read as
    /// all ones and ignore stores). This program must not access it in any other way.
    pub unsafe fn new(range: PhysRange) -> Result<Self, MappedError> {
        if !range.start.is_multiple_of(PAGE_BYTES) {
            return Err(MappedError::Misaligned(range.start));
        }
        let length = range.end.saturating_sub(range.start);
        if length < PAGE_BYTES {
            return Err(MappedError::TooSmall(length));
        }
        Ok(MappedMemory { range })
    }

    /// The memory's address range.
    #[must_use]
    pub fn range(&self) -> PhysRange {
        self.range
    }

    /// Copies a page from `offset`, a multiple of 8, whose range is checked. Returns
    /// whether its last word is all ones, as for all pages of an absent device.
    #[inline]
    pub(super) fn load(&self, offset: u64, to: Target) -> bool {
        let from = self.words(offset);
        let mut last = 0;
        for first in (0..PAGE_WORDS).step_by(BATCH) {
            // SAFETY: `words` checked that the page is in the range, which is memory
            // that the caller of `new` vouched for.
            let words: [u64; BATCH] =
                core::array::from_fn(|word| unsafe { from.add(first + word).read_volatile() });
            last = words[BATCH - 1];
            // SAFETY: a `Target` points to a page while it exists.
            unsafe { to.0.add(first).cast::<[u64; BATCH]>().write(words) };
        }
        last == u64::MAX
    }

    /// Copies a page to `offset`, a multiple of 8, whose range is checked.
    #[inline]
    pub(super) fn store(&self, offset: u64, from: Source) {
        let to = self.words(offset);
        for first in (0..PAGE_WORDS).step_by(BATCH) {
            // SAFETY: a `Source` points to a page while it exists.
            let words = unsafe { from.0.add(first).cast::<[u64; BATCH]>().read() };
            for (word, value) in words.into_iter().enumerate() {
                // SAFETY: as in `load`.
                unsafe { to.add(first + word).write_volatile(value) };
            }
        }
    }

    fn words(&self, offset: u64) -> *mut u64 {
        let end = offset.checked_add(PAGE_BYTES);
        assert!(
            end.is_some_and(|end| end <= self.range.length()) && offset.is_multiple_of(8),
            "no page at byte {offset:#x} of {:?}",
            self.range
        );
        core::ptr::with_exposed_provenance_mut(to_usize(self.range.start + offset))
    }
}

pub(super) struct Target(*mut u64);

impl From<&mut Page> for Target {
    fn from(page: &mut Page) -> Self {
        Target(page.0.as_mut_ptr())
    }
}

impl From<OsPage> for Target {
    /// An `OsPage` is memory that the caller of `OsMemory::new` guarantees. It belongs to the
    /// transfer until the transfer ends.
    fn from(page: OsPage) -> Self {
        Target(core::ptr::with_exposed_provenance_mut(to_usize(
            page.address(),
        )))
    }
}

pub(super) struct Source(*const u64);

impl From<&Page> for Source {
    fn from(page: &Page) -> Self {
        Source(page.0.as_ptr())
    }
}

impl From<OsPage> for Source {
    /// As for [`Target`].
    fn from(page: OsPage) -> Self {
        Source(core::ptr::with_exposed_provenance(to_usize(page.address())))
    }
}
