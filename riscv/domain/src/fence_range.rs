use crate::claims::ClaimError;

/// Above this number of pages one fence for everything is cheaper.
pub const MANY_PAGES: u64 = 64;

const PAGE_SHIFT: u32 = 12;

/// The size that means "the whole address space" (SBI 3.0, chapter 8).
const EVERYTHING: u64 = u64::MAX;

/// A range of virtual addresses whose translations a caller wants to fence. All addresses are
/// valid, since the address space is the OS's own, but a range must not wrap to address zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceRange {
    start: u64,
    size: u64,
}

/// The pages to fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FencePages<I> {
    /// All pages of the address space.
    Everything,
    /// The addresses of these pages.
    Few(I),
}

impl FenceRange {
    /// Checks a range.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Fence`] if it ends past the last address.
    pub fn new(start: u64, size: u64) -> Result<Self, ClaimError> {
        let range = FenceRange { start, size };
        let last = size.checked_sub(1).and_then(|more| start.checked_add(more));
        if range.is_everything() || size == 0 || last.is_some() {
            return Ok(range);
        }
        Err(ClaimError::Fence { start, size })
    }

    /// "start and size both zero, or size of all ones" (SBI 3.0, chapter 8).
    fn is_everything(self) -> bool {
        (self.start == 0 && self.size == 0) || self.size == EVERYTHING
    }

    /// The pages that the range touches. The iterator counts pages, because the end of the range
    /// may be 2^64, which no `u64` holds.
    #[must_use]
    pub fn pages(self) -> FencePages<impl Iterator<Item = u64>> {
        if self.is_everything() {
            return FencePages::Everything;
        }
        let first = self.start >> PAGE_SHIFT;
        // The last byte exists: `new` has checked it.
        let count = self.size.checked_sub(1).map_or(0, |more| {
            let last = self.start.saturating_add(more) >> PAGE_SHIFT;
            last - first + 1
        });
        if count > MANY_PAGES {
            return FencePages::Everything;
        }
        FencePages::Few((first..first + count).map(|page| page << PAGE_SHIFT))
    }
}
