//! Media for images, and their drivers.
//!
//! The rest of Poorwill uses devices through [`Medium`]: bytes in units of pages,
//! asynchronous transfers, and a flush. [`nvme`] is the NVMe driver. [`mapped`] is the driver for
//! persistent memory. [`cfi`] is the driver for NOR flash, which holds the vault. All drivers access
//! hardware through small traits, so that they run on the host with models of devices.
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

pub mod cfi;
#[cfg(test)]
mod contract;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod mapped;
pub mod nvme;
mod wait;
mod window;

pub use window::Window;

use poorwill_memory::{OsPage, PAGE_BYTES, Page};
use thiserror::Error;

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the medium into memory.
    Read,
    /// From memory to the medium.
    Write,
}

/// An error of a medium. Each error ends a sleep (the OS continues) or a wake (cold
/// boot). There are no retries, because a failing device must not be trusted with a
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MediumError {
    /// The device reported an error for a command.
    #[error("{direction:?} at byte {offset:#x} failed with status {status:#x}")]
    Device {
        /// The direction of the transfer.
        direction: Direction,
        /// The offset on the medium in bytes.
        offset: u64,
        /// The device's status code.
        status: u16,
    },
    /// A flush failed with the device's status code.
    #[error("flush failed with status {0:#x}")]
    Flush(u16),
    /// The device did not answer in time.
    #[error("no answer from the device within {0} ms")]
    TimedOut(u32),
    /// The transfer extends past the end of the medium.
    #[error("bytes {offset:#x} to {end:#x} lie beyond the end of the medium")]
    OutOfRange {
        /// The first offset.
        offset: u64,
        /// The offset after the last byte.
        end: u64,
    },
    /// More transfers or pages at once than the medium takes: a bug of the caller.
    #[error("more transfers at once than the medium takes")]
    TooMany,
    /// The device broke its own protocol.
    #[error("the device answered an unknown command")]
    Protocol,
    /// The offset is not a multiple of the medium's block: a bug of the caller.
    #[error("byte {0:#x} is not at the start of a block of the medium")]
    Misaligned(u64),
    /// The device does not answer any more; unflushed data may be lost.
    #[error("the device does not answer any more; check whether it is still connected")]
    Absent,
    /// The medium was stopped by [`Medium::quiesce`] or by an earlier error.
    #[error("the medium was stopped after an earlier error")]
    Stopped,
}

/// Checks that `pages` pages from byte `offset` are within a medium of `capacity` bytes.
///
/// # Errors
///
/// [`MediumError::OutOfRange`].
pub fn check_range(capacity: u64, offset: u64, pages: usize) -> Result<(), MediumError> {
    let end = offset.saturating_add((pages as u64).saturating_mul(PAGE_BYTES));
    if end > capacity {
        return Err(MediumError::OutOfRange { offset, end });
    }
    Ok(())
}

/// A device that stores bytes without power.
///
/// Offsets are in bytes, and multiples of [`poorwill_memory::PAGE_BYTES`].
pub trait Medium {
    /// The length of the medium in bytes, in whole pages.
    fn capacity(&self) -> u64;

    /// The most pages of one [`Medium::start`] (at least 1).
    fn max_pages(&self) -> usize;

    /// The most transfers in progress at once (at least 1).
    fn depth(&self) -> usize;

    /// Fills `into` from the medium. Blocks until it is done.
    ///
    /// # Errors
    ///
    /// See [`MediumError`]. The contents of `into` are then unspecified. If transfers are
    /// in progress, the failure may be one of theirs, as for [`Medium::poll`]. This
    /// applies to the functions below, too.
    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError>;

    /// Writes `from` to the medium. Blocks until it is done. The data is durable after a
    /// [`Medium::flush`].
    ///
    /// # Errors
    ///
    /// See [`MediumError`]. Any part may be written then.
    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError>;

    /// Makes all completed writes durable.
    ///
    /// # Errors
    ///
    /// See [`MediumError`]. Any part may be durable then.
    fn flush(&mut self) -> Result<(), MediumError>;

    /// Starts to flush all completed writes, in parallel with later transfers, so that a
    /// later [`Medium::flush`] is short. It counts as a transfer with the tag `tag`.
    /// Returns `false` if no flush was started: the medium has no cache, or no room for
    /// another transfer. This is the default.
    ///
    /// # Errors
    ///
    /// See [`MediumError`].
    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        let _ = tag;
        Ok(false)
    }

    /// Starts a transfer between consecutive bytes of the medium and the given pages of
    /// OS memory, in their order. The pages belong to the device until [`Medium::poll`]
    /// returns `tag`.
    ///
    /// # Errors
    ///
    /// [`MediumError::TooMany`] if [`Medium::depth`] transfers are in progress, or
    /// `pages` is empty or longer than [`Medium::max_pages`];
    /// [`MediumError::OutOfRange`].
    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError>;

    /// The tag of a finished transfer, in any order; `None` if no transfer has finished.
    /// Does not block, but reports [`MediumError::TimedOut`] if a transfer is overdue.
    ///
    /// # Errors
    ///
    /// The failure of any transfer. [`Medium::quiesce`] must then end the others before
    /// memory is accessed.
    fn poll(&mut self) -> Result<Option<u32>, MediumError>;

    /// Stops all transfers, finished or not. When this returns, the device accesses no
    /// memory. For use after an error.
    fn quiesce(&mut self);
}

impl<M: Medium + ?Sized> Medium for &mut M {
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn max_pages(&self) -> usize {
        (**self).max_pages()
    }

    fn depth(&self) -> usize {
        (**self).depth()
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        (**self).read(offset, into)
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        (**self).write(offset, from)
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        (**self).flush()
    }

    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        (**self).start_flush(tag)
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError> {
        (**self).start(direction, offset, pages, tag)
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        (**self).poll()
    }

    fn quiesce(&mut self) {
        (**self).quiesce();
    }
}
