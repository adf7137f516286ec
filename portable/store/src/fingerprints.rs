use core::fmt;

use arrayvec::ArrayVec;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page, checksum, to_usize};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::gpt::{GptError, MAX_PARTITIONS, Partition, find_others};

/// Tells whether a partition is as it was when an image was made, whose OS
/// knows it so. An image keeps one for each partition of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionFingerprint {
    /// The partition's own GUID.
    guid: [u8; 16],
    /// Its name, filled up with zeros.
    name: [u8; 40],
    /// Which of the device's disks it is on.
    disk: u32,
    /// Its number there, from 1.
    number: u32,
    /// Checksum of where it lies and of its first [`FINGERPRINTED_BYTES`].
    digest: u64,
}

/// Bytes at a partition's start that are looked at. There lie what ext4, XFS,
/// Btrfs, SquashFS, EROFS and FAT change whenever somebody mounts them for
/// writing: superblocks, and FAT's table.
pub const FINGERPRINTED_BYTES: u64 = 128 << 10;

/// The fingerprints of a device's partitions.
pub type PartitionFingerprints = ArrayVec<PartitionFingerprint, MAX_PARTITIONS>;

/// How a disk is another than when the image was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DiskChanged {
    /// The partition has been written to, or lies elsewhere.
    #[error("partition {0} has been written to since")]
    Written(PartitionName),
    /// It is not there.
    #[error("partition {0} is not there any more")]
    Gone(PartitionName),
}

/// A partition, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionName {
    number: u32,
    name: [u8; 40],
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)?;
        let name = self.name.split(|byte| *byte == 0).next();
        match name.map(core::str::from_utf8) {
            Some(Ok(name)) if !name.is_empty() => write!(f, " ({name:?})"),
            _ => Ok(()),
        }
    }
}

impl PartitionFingerprint {
    fn name(&self) -> PartitionName {
        PartitionName {
            number: self.number,
            name: self.name,
        }
    }

    fn is_of(&self, other: &PartitionFingerprint) -> bool {
        (self.disk, self.number, self.guid) == (other.disk, other.number, other.guid)
    }
}

/// Adds the fingerprints of a disk's partitions that are no sleep areas; `number` is which
/// of the device's disks it is. Nothing is written. `scratch` holds at least one
/// page.
///
/// # Errors
///
/// [`GptError`]; more than can be looked after are [`GptError::TooManyOthers`].
pub fn fingerprint_partitions<M: Medium>(
    disk: &mut M,
    number: u32,
    block_bytes: u32,
    scratch: &mut [Page],
    fingerprints: &mut PartitionFingerprints,
) -> Result<(), GptError> {
    for partition in find_others(disk, block_bytes, scratch)? {
        let fingerprint = PartitionFingerprint {
            guid: partition.guid,
            name: partition.name,
            disk: number,
            number: partition.number,
            digest: digest(disk, &partition, scratch)?,
        };
        fingerprints
            .try_push(fingerprint)
            .map_err(|_| GptError::TooManyOthers)?;
    }
    Ok(())
}

/// Whether the partitions that there were `then` are the same `now`. Others may
/// have come.
///
/// # Errors
///
/// The first [`DiskChanged`].
pub fn unchanged(
    then: &[PartitionFingerprint],
    now: &[PartitionFingerprint],
) -> Result<(), DiskChanged> {
    for fingerprint in then {
        match now.iter().find(|now| now.is_of(fingerprint)) {
            Some(now) if now.digest == fingerprint.digest => {}
            Some(_) => return Err(DiskChanged::Written(fingerprint.name())),
            None => return Err(DiskChanged::Gone(fingerprint.name())),
        }
    }
    Ok(())
}

fn digest<M: Medium>(
    disk: &mut M,
    partition: &Partition,
    scratch: &mut [Page],
) -> Result<u64, GptError> {
    const PAGES: usize = (FINGERPRINTED_BYTES / PAGE_BYTES) as usize;
    let mut words = [0; PAGES + 2];
    words[..2].copy_from_slice(&[partition.start, partition.length]);
    let length = partition.length.min(FINGERPRINTED_BYTES);
    let mut start = Window::new(disk, partition.start, length)?;
    let pages = to_usize(start.capacity() / PAGE_BYTES);
    let room = &mut scratch[..1];
    for (number, word) in (0..).zip(&mut words[2..][..pages]) {
        start.read(number * PAGE_BYTES, room)?;
        *word = checksum::of_words(&room[0].0);
    }
    Ok(checksum::of_words(&words))
}
