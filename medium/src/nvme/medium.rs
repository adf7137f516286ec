use poorwill_memory::{OsPage, Page};

use super::{Controller, Registers};
use crate::{Clock, Direction, Medium, MediumError};

/// One namespace as a medium. Offsets need only be multiples of the
/// namespace's block size.
#[derive(Debug)]
pub struct NvmeMedium<'c, 'a, R: Registers, K: Clock> {
    controller: &'c mut Controller<'a, R, K>,
}

impl<R: Registers, K: Clock> Medium for NvmeMedium<'_, '_, R, K> {
    fn capacity(&self) -> u64 {
        let _ = &self.controller;
        todo!()
    }

    fn max_pages(&self) -> usize {
        todo!()
    }

    fn depth(&self) -> usize {
        todo!()
    }

    fn read(&mut self, _offset: u64, _into: &mut [Page]) -> Result<(), MediumError> {
        todo!()
    }

    fn write(&mut self, _offset: u64, _from: &[Page]) -> Result<(), MediumError> {
        todo!()
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        todo!()
    }

    fn start(
        &mut self,
        _direction: Direction,
        _offset: u64,
        _pages: &[OsPage],
        _tag: u32,
    ) -> Result<(), MediumError> {
        todo!()
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        todo!()
    }

    fn quiesce(&mut self) {
        todo!()
    }
}
