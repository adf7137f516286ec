use arrayvec::ArrayVec;
use poorwill_memory::{OsPage, PAGE_BYTES, Page, PhysRange};

use super::memory::{Source, Target};
use super::{MappedError, MappedMemory, Persistence};
use crate::{Direction, Medium, MediumError, check_range};

/// The length of a block in bytes: offsets must be multiples of it.
pub const BLOCK_BYTES: u32 = 512;

/// The most pages of one transfer: the hart that copies them does nothing else during
/// that time.
pub const MAX_PAGES: usize = 64;

/// The most finished transfers that [`Medium::poll`] has not returned.
pub const DEPTH: usize = 2;

/// Persistent memory as a medium.
#[derive(Debug)]
pub struct MappedMedium<P> {
    memory: MappedMemory,
    persistence: P,
    /// The length in bytes, in whole pages.
    capacity: u64,
    /// The tags of transfers that [`Medium::poll`] has not returned.
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

    /// Copies from the medium. The range is checked.
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

    /// Copies to the medium. The range is checked.
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
        // This check comes after the flush, because stores to an absent device are lost.
        if !self.persistence.is_present() {
            return Err(MediumError::Absent);
        }
        Ok(())
    }

    /// Moves the pages before it returns; [`Medium::poll`] only returns the tag.
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
