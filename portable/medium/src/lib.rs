//! Where images live.
//!
//! [`Medium`] is what the rest of Poorwill knows of a device: numbered bytes
//! in units of pages, transfers that run on their own, and a flush. The NVMe
//! driver ([`nvme`]) and the search for devices on PCI ([`pci`]) speak through
//! small traits to registers, so that they run on the host against a modelled
//! device. So does the driver for memory that keeps its bytes ([`mapped`]) to
//! what makes stores durable, and that for NOR flash ([`cfi`]), which holds no
//! images but the key to them.
#![cfg_attr(not(test), no_std)]
#![warn(missing_docs)]

pub mod cfi;
mod clock;
#[cfg(test)]
mod contract;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod mapped;
pub mod nvme;
pub mod pci;
mod window;

pub use clock::Clock;
pub use window::Window;

use poorwill_memory::{OsPage, PAGE_BYTES, Page};
use thiserror::Error;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the medium into memory.
    Read,
    /// From memory to the medium.
    Write,
}

/// What went wrong with a medium. Each ends a sleep (the OS goes on) or a wake
/// (cold boot); none is retried, as a device that fails once is not trusted
/// with a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MediumError {
    /// The device reported an error for a command.
    #[error("{direction:?} at byte {offset:#x} failed with status {status:#x}")]
    Device {
        /// Which way the transfer went.
        direction: Direction,
        /// Where on the medium, in bytes.
        offset: u64,
        /// The device's own status code.
        status: u16,
    },
    /// A flush failed with the device's status code.
    #[error("flush failed with status {0:#x}")]
    Flush(u16),
    /// The device did not answer in time.
    #[error("no answer from the device within {0} ms")]
    TimedOut(u32),
    /// The transfer does not lie within the medium.
    #[error("bytes {offset:#x} to {end:#x} lie beyond the end of the medium")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// First byte behind.
        end: u64,
    },
    /// More transfers or pages at once than the medium takes; a caller's fault.
    #[error("more transfers at once than the medium takes")]
    TooMany,
    /// The device broke its own protocol.
    #[error("the device answered a command that was not given")]
    Protocol,
    /// The offset is no multiple of the medium's blocks; a caller's fault.
    #[error("byte {0:#x} is not at the start of a block of the medium")]
    Misaligned(u64),
    /// The device does not answer any more; what was not flushed may be lost.
    #[error("the device does not answer any more; is it still there?")]
    Absent,
    /// The medium was stopped by [`Medium::quiesce`] or by an earlier error.
    #[error("the medium has been stopped")]
    Stopped,
}

/// Checks that `pages` pages from byte `offset` lie within a medium of `capacity`
/// bytes.
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

/// A device that keeps bytes without power.
///
/// Offsets are in bytes and multiples of [`poorwill_memory::PAGE_BYTES`].
pub trait Medium {
    /// Bytes on the medium, whole pages only.
    fn capacity(&self) -> u64;

    /// Pages that one [`Medium::start`] may move at most (at least 1).
    fn max_pages(&self) -> usize;

    /// Transfers that may be under way at once (at least 1).
    fn depth(&self) -> usize;

    /// Fills `into` from the medium and waits for it.
    ///
    /// # Errors
    ///
    /// See [`MediumError`]. The contents of `into` are unspecified then. With
    /// transfers under way the failure may be one of theirs, as for
    /// [`Medium::poll`]; likewise below.
    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError>;

    /// Writes `from` to the medium and waits for it; not durable before a
    /// [`Medium::flush`].
    ///
    /// # Errors
    ///
    /// See [`MediumError`]. Any part may have been written then.
    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError>;

    /// Makes every completed write durable.
    ///
    /// # Errors
    ///
    /// See [`MediumError`]. Any part may be durable then.
    fn flush(&mut self) -> Result<(), MediumError>;

    /// Starts making durable what has completed, beside transfers that follow, so
    /// that a [`Medium::flush`] behind them finds less to do. It counts as a transfer
    /// with the tag `tag`. `false` where there is nothing to start: a medium without
    /// a cache, or without room for one more transfer; where media say nothing else.
    ///
    /// # Errors
    ///
    /// See [`MediumError`].
    fn start_flush(&mut self, tag: u32) -> Result<bool, MediumError> {
        let _ = tag;
        Ok(false)
    }

    /// Starts a transfer between consecutive bytes of the medium and the given
    /// pages of OS memory, in their order. The pages are the device's until
    /// [`Medium::poll`] returns `tag`.
    ///
    /// # Errors
    ///
    /// [`MediumError::TooMany`] when [`Medium::depth`] transfers are under way
    /// or `pages` is empty or longer than [`Medium::max_pages`];
    /// [`MediumError::OutOfRange`].
    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        pages: &[OsPage],
        tag: u32,
    ) -> Result<(), MediumError>;

    /// The tag of one finished transfer, in any order; `None` when none has
    /// finished since. Does not wait, but reports [`MediumError::TimedOut`]
    /// when a started transfer is overdue.
    ///
    /// # Errors
    ///
    /// The failure of any one transfer. The others must then still be drained
    /// by [`Medium::quiesce`] before memory is touched.
    fn poll(&mut self) -> Result<Option<u32>, MediumError>;

    /// Stops whatever is under way: when it returns, the device touches no
    /// memory any more, finished or not. For use after an error.
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
