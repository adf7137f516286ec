use crate::claims::ClaimError;

/// From more pages on, one fence for everything is cheaper.
pub const MANY_PAGES: u64 = 64;

/// log2 of a page's bytes.
const PAGE_SHIFT: u32 = 12;

/// What says "the whole address space" as a size (SBI 3.0, chapter 8).
const EVERYTHING: u64 = u64::MAX;

/// A range of virtual addresses whose translations a caller wants fenced. Any
/// address will do, as the address space is the OS's own; but a range does not go
/// on at address zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceRange {
    start: u64,
    size: u64,
}

/// The pages to fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FencePages<I> {
    /// Those of the whole address space.
    Everything,
    /// These, by the address of each.
    Few(I),
}

impl FenceRange {
    /// The claim of a range.
    ///
    /// # Errors
    ///
    /// [`ClaimError::Fence`] when it would end behind the last address.
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

    /// The pages that the range touches. They are counted first and never compared
    /// with an end, which at the top of the address space is no number of 64 bits.
    #[must_use]
    pub fn pages(self) -> FencePages<impl Iterator<Item = u64>> {
        if self.is_everything() {
            return FencePages::Everything;
        }
        let first = self.start >> PAGE_SHIFT;
        // The last byte exists: `new` saw to it.
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
