use poorwill_memory::{OsPage, PAGE_BYTES, Page};

use crate::{Direction, Medium, MediumError, check_range};

/// A part of a medium as a medium of its own: a sleep area of a disk, or a slot of a sleep area. It
/// does not permit accesses outside the part.
#[derive(Debug)]
pub struct Window<'a, M> {
    medium: &'a mut M,
    start: u64,
    length: u64,
}

impl<'a, M: Medium> Window<'a, M> {
    /// The `length` bytes of `medium` from `start`, cut to whole pages.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] if the medium is too short.
    pub fn new(medium: &'a mut M, start: u64, length: u64) -> Result<Self, MediumError> {
        let end = start.saturating_add(length);
        if end > medium.capacity() {
            return Err(MediumError::OutOfRange { offset: start, end });
        }
        let length = length / PAGE_BYTES * PAGE_BYTES;
        Ok(Window {
            medium,
            start,
            length,
        })
    }

    /// The offset of `pages` pages at `offset` in the underlying medium.
    fn locate(&self, offset: u64, pages: usize) -> Result<u64, MediumError> {
        check_range(self.length, offset, pages)?;
        Ok(self.start + offset)
    }
}

impl<M: Medium> Medium for Window<'_, M> {
    fn capacity(&self) -> u64 {
        self.length
    }

    fn max_pages(&self) -> usize {
        self.medium.max_pages()
    }

    fn depth(&self) -> usize {
        self.medium.depth()
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        let offset = self.locate(offset, into.len())?;
        self.medium.read(offset, into)
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        let offset = self.locate(offset, from.len())?;
        self.medium.write(offset, from)
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        self.medium.flush()
    }

    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        self.medium.start_flush(tag)
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        let offset = self.locate(offset, pages.len())?;
        self.medium.start(direction, offset, pages, tag)
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        self.medium.poll()
    }

    fn quiesce(&mut self) {
        self.medium.quiesce();
    }
}
