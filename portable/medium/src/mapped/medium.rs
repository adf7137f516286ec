use arrayvec::ArrayVec;
use poorwill_memory::{OsPage, PAGE_BYTES, Page, PhysRange};

use super::memory::{Source, Target};
use super::{MappedError, MappedMemory, Persistence};
use crate::{Direction, Medium, MediumError, check_range};

/// Bytes of a block: offsets must be multiples of it.
pub const BLOCK_BYTES: u32 = 512;

/// Pages that one transfer may move at most: the hart that copies them looks at nothing else
/// meanwhile.
pub const MAX_PAGES: usize = 64;

/// Transfers that may wait to be asked for: while one is, the next is moved.
pub const DEPTH: usize = 2;

/// Memory that keeps its bytes, as a medium.
#[derive(Debug)]
pub struct MappedMedium<P> {
    memory: MappedMemory,
    persistence: P,
    /// Bytes in whole pages.
    capacity: u64,
    /// Tags of transfers that were not asked for yet.
    finished: ArrayVec<u32, DEPTH>,
}

impl<P: Persistence> MappedMedium<P> {
    /// The whole pages of `memory` as a medium.
    ///
    /// # Errors
    ///
    /// [`MappedError::Absent`].
    pub fn new(memory: MappedMemory, persistence: P) -> Result<Self, MappedError> {
        let range = memory.range();
        if !persistence.is_present() {
            return Err(MappedError::Absent(range.start));
        }
        Ok(MappedMedium {
            capacity: range.length() / PAGE_BYTES * PAGE_BYTES,
            memory,
            persistence,
            finished: ArrayVec::new(),
        })
    }

    fn check(&self, offset: u64, pages: usize) -> Result<(), MediumError> {
        check_range(self.capacity, offset, pages)?;
        if !offset.is_multiple_of(BLOCK_BYTES.into()) {
            return Err(MediumError::Misaligned(offset));
        }
        Ok(())
    }

    /// Copies from the medium. `pages` fit.
    fn load(
        &self,
        offset: u64,
        pages: impl Iterator<Item = impl Into<Target>>,
    ) -> Result<(), MediumError> {
        let mut looks_absent = false;
        for (at, page) in (offset..).step_by(size_of::<Page>()).zip(pages) {
            looks_absent = self.memory.load(at, page.into());
        }
        if looks_absent && !self.persistence.is_present() {
            return Err(MediumError::Absent);
        }
        Ok(())
    }

    /// Copies to the medium. `pages` fit.
    fn store(&self, offset: u64, pages: impl ExactSizeIterator<Item = impl Into<Source>>) {
        let length = pages.len() as u64 * PAGE_BYTES;
        for (at, page) in (offset..).step_by(size_of::<Page>()).zip(pages) {
            self.memory.store(at, page.into());
        }
        let start = self.memory.range().start + offset;
        self.persistence.write_back(PhysRange::new(start, length));
    }
}

impl<P: Persistence> Medium for MappedMedium<P> {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn max_pages(&self) -> usize {
        MAX_PAGES
    }

    fn depth(&self) -> usize {
        DEPTH
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        self.check(offset, into.len())?;
        self.load(offset, into.iter_mut())
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        self.check(offset, from.len())?;
        self.store(offset, from.iter());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        self.persistence.settle().map_err(MediumError::Flush)?;
        // Behind it, so that the stores before did not go nowhere.
        if !self.persistence.is_present() {
            return Err(MediumError::Absent);
        }
        Ok(())
    }

    /// Moves the pages at once; only the telling is left to [`Medium::poll`].
    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        self.check(offset, pages.len())?;
        if pages.is_empty() || pages.len() > MAX_PAGES || self.finished.is_full() {
            return Err(MediumError::TooMany);
        }
        match direction {
            Direction::Read => self.load(offset, pages.iter().copied())?,
            Direction::Write => self.store(offset, pages.iter().copied()),
        }
        self.finished.push(tag);
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        Ok(self.finished.pop())
    }

    fn quiesce(&mut self) {
        self.finished.clear();
    }
}
