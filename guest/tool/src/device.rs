use poorwill_medium::{Direction, Medium, MediumError, check_range};
use poorwill_memory::{OsPage, PAGE_BYTES, Page};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, fsync, open};
use rustix::io::{Errno, pread, pwrite, retry_on_intr};
use zerocopy::IntoBytes;

use crate::error::{Error, Name};
use crate::files::{number, path};
use crate::places::Places;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// Reading, and exclusive writing: no mounted file system and no other handle of this kind uses
    /// the device.
    Write,
}

/// A disk or a partition, read with direct I/O: the firmware writes to it, and Linux's page cache
/// may be outdated.
///
/// A status in its errors is Linux's error number. [`Medium::start`] always fails, since this
/// program moves no OS memory.
#[derive(Debug)]
pub(crate) struct BlockDevice {
    node: OwnedFd,
    capacity: u64,
}

/// The unit of lengths in sysfs, for each block size of a device.
pub(crate) const SECTOR_BYTES: u64 = 512;

impl BlockDevice {
    /// Opens the block device that Linux calls `name`.
    pub(crate) fn open(places: &Places<'_>, name: &str, access: Access) -> Result<Self, Error> {
        let sectors = number(places, name, "size")?.unwrap_or_default();
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR | OFlags::EXCL,
        };
        let flags = flags | OFlags::DIRECT | OFlags::CLOEXEC;
        let (node, name) = (path(&[places.nodes, name])?, Name::from(name)?);
        let opened = retry_on_intr(|| open(node.as_str(), flags, Mode::empty()));
        Ok(BlockDevice {
            node: opened.map_err(|errno| Error::Open(name, errno))?,
            capacity: sectors.saturating_mul(SECTOR_BYTES) / PAGE_BYTES * PAGE_BYTES,
        })
    }
}

/// Moves all of `bytes` by several calls of `step`. Each call gets an offset, and moves a part.
fn all_of(
    direction: Direction,
    offset: u64,
    bytes: usize,
    mut step: impl FnMut(usize, u64) -> Result<usize, Errno>,
) -> Result<(), MediumError> {
    let mut done = 0;
    while done < bytes {
        let at = offset + done as u64;
        let moved = match retry_on_intr(|| step(done, at)) {
            // The device ends before the length that sysfs gives.
            Ok(0) => Err(Errno::IO),
            moved => moved,
        };
        done += moved.map_err(|errno| MediumError::Device {
            direction,
            offset: at,
            status: status(errno),
        })?;
    }
    Ok(())
}

fn status(errno: Errno) -> u16 {
    u16::try_from(errno.raw_os_error()).unwrap_or(u16::MAX)
}

impl Medium for BlockDevice {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn max_pages(&self) -> usize {
        256
    }

    fn depth(&self) -> usize {
        1
    }

    fn read(&mut self, offset: u64, into: &mut [Page]) -> Result<(), MediumError> {
        check_range(self.capacity, offset, into.len())?;
        let bytes = into.as_mut_bytes();
        let (node, length) = (&self.node, bytes.len());
        all_of(Direction::Read, offset, length, |done, at| {
            pread(node, &mut bytes[done..], at)
        })
    }

    fn write(&mut self, offset: u64, from: &[Page]) -> Result<(), MediumError> {
        check_range(self.capacity, offset, from.len())?;
        let bytes = from.as_bytes();
        all_of(Direction::Write, offset, bytes.len(), |done, at| {
            pwrite(&self.node, &bytes[done..], at)
        })
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        retry_on_intr(|| fsync(&self.node)).map_err(|errno| MediumError::Flush(status(errno)))
    }

    fn start(
        &mut self,
        direction: Direction,
        offset: u64,
        _pages: &[OsPage],
        _tag: u32,
    ) -> Result<(), MediumError> {
        Err(MediumError::Device {
            direction,
            offset,
            status: status(Errno::NOSYS),
        })
    }

    fn poll(&mut self) -> Result<Option<u32>, MediumError> {
        Ok(None)
    }

    fn quiesce(&mut self) {}
}
