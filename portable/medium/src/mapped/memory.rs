use poorwill_memory::{OsPage, PAGE_BYTES, PAGE_WORDS, Page, PhysRange, to_usize};

use super::MappedError;

/// Words that are loaded before they are stored: as many as most caches have in
/// a line. With fewer, each load is waited for.
const BATCH: usize = 8;

/// A range of memory that keeps its bytes, by volatile accesses of aligned
/// words. Several harts may load and store different bytes of it at once.
#[derive(Clone, Copy, Debug)]
pub struct MappedMemory {
    range: PhysRange,
}

impl MappedMemory {
    /// The memory in `range`, which the CPU reaches at these addresses.
    ///
    /// # Errors
    ///
    /// [`MappedError::Misaligned`], [`MappedError::TooSmall`].
    ///
    /// # Safety
    ///
    /// For as long as the value or a copy of it is used, the range is memory
    /// (or reads as ones and ignores stores), and this program refers to it in
    /// no other way.
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

    /// Where it lies.
    #[must_use]
    pub fn range(&self) -> PhysRange {
        self.range
    }

    /// Copies the page's worth of bytes from `offset` on, a multiple of 8 that
    /// the caller has checked, to a page. Tells whether they end in all ones, as
    /// all do that come from a device that is not there.
    #[inline]
    pub(super) fn load(&self, offset: u64, to: Target) -> bool {
        let from = self.words(offset);
        let mut last = 0;
        for first in (0..PAGE_WORDS).step_by(BATCH) {
            // SAFETY: `words` checked that the page lies in the range, which is
            // memory that the maker of the value vouched for.
            let words: [u64; BATCH] =
                core::array::from_fn(|word| unsafe { from.add(first + word).read_volatile() });
            last = words[BATCH - 1];
            // SAFETY: the maker of the target vouched for a page.
            unsafe { to.0.add(first).cast::<[u64; BATCH]>().write(words) };
        }
        last == u64::MAX
    }

    /// Copies a page to the bytes from `offset` on, a multiple of 8 that the
    /// caller has checked.
    #[inline]
    pub(super) fn store(&self, offset: u64, from: Source) {
        let to = self.words(offset);
        for first in (0..PAGE_WORDS).step_by(BATCH) {
            // SAFETY: the maker of the source vouched for a page.
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

/// A page to be filled.
pub(super) struct Target(*mut u64);

impl From<&mut Page> for Target {
    fn from(page: &mut Page) -> Self {
        Target(page.0.as_mut_ptr())
    }
}

impl From<OsPage> for Target {
    /// An `OsPage` is memory that the maker of its `OsMemory` vouched for, and
    /// the transfer's until it ends.
    fn from(page: OsPage) -> Self {
        Target(core::ptr::with_exposed_provenance_mut(to_usize(
            page.address(),
        )))
    }
}

/// A page to be copied.
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
