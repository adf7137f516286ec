use core::fmt;

use arrayvec::ArrayVec;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page, checksum, to_usize};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::content::{Content, Recognition};
use crate::gpt::{GptError, MAX_PARTITIONS, Partition, find_others};

/// Tells whether a partition is as it was when an image was made, whose OS
/// knows it so. An image keeps one for each partition of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionFingerprint {
    partition: PartitionDigest,
    /// The number of its [`Content`].
    content: u32,
    /// 1: its content cannot be guarded, and the snapshot was taken all the same.
    is_accepted: u32,
}

/// What of a fingerprint older images have, too: which partition, and a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionDigest {
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

/// Bytes at a partition's start that are looked at. There lie the superblocks of ext4 and
/// Btrfs, which change whenever somebody mounts them and writes. Of other content nothing
/// there need change: [`PartitionFingerprint::unguarded`].
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

/// A partition to which an OS may write without a change of its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "partition {name} cannot be guarded: it holds {content}, which can change beyond its first \
     {} KiB alone",
    FINGERPRINTED_BYTES >> 10
)]
pub struct UnguardedPartition {
    /// The partition.
    pub name: PartitionName,
    /// What it holds.
    pub content: Content,
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

impl PartitionDigest {
    fn name(&self) -> PartitionName {
        PartitionName {
            number: self.number,
            name: self.name,
        }
    }

    fn is_of(&self, other: &PartitionDigest) -> bool {
        (self.disk, self.number, self.guid) == (other.disk, other.number, other.guid)
    }
}

impl PartitionFingerprint {
    /// Which partition, and its checksum.
    #[must_use]
    pub fn digest(&self) -> &PartitionDigest {
        &self.partition
    }

    /// Whether it is of the partition that this digest is of.
    #[must_use]
    pub fn is_of(&self, digest: &PartitionDigest) -> bool {
        self.partition.is_of(digest)
    }

    /// Why it cannot tell whether the partition was written to, if it cannot.
    #[must_use]
    pub fn unguarded(&self) -> Option<UnguardedPartition> {
        // A number that a later Poorwill gave is of no kind that is guarded here.
        let content = Content::of_number(self.content).unwrap_or(Content::Unknown);
        (!content.is_guarded()).then(|| UnguardedPartition {
            name: self.partition.name(),
            content,
        })
    }

    /// Notes that a snapshot is taken though the partition cannot be guarded.
    pub fn accept(&mut self) {
        self.is_accepted = u32::from(self.unguarded().is_some());
    }

    /// Whether [`PartitionFingerprint::accept`] noted that.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.is_accepted != 0
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
        let (digest, content) = look_at(disk, &partition, scratch)?;
        let fingerprint = PartitionFingerprint {
            partition: PartitionDigest {
                guid: partition.guid,
                name: partition.name,
                disk: number,
                number: partition.number,
                digest,
            },
            content: content as u32,
            is_accepted: 0,
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
pub fn unchanged<'a>(
    then: impl IntoIterator<Item = &'a PartitionDigest>,
    now: &[PartitionFingerprint],
) -> Result<(), DiskChanged> {
    for fingerprint in then {
        let mut now = now.iter().map(PartitionFingerprint::digest);
        match now.find(|now| now.is_of(fingerprint)) {
            Some(now) if now.digest == fingerprint.digest => {}
            Some(_) => return Err(DiskChanged::Written(fingerprint.name())),
            None => return Err(DiskChanged::Gone(fingerprint.name())),
        }
    }
    Ok(())
}

/// A partition's digest, and what it holds.
fn look_at<M: Medium>(
    disk: &mut M,
    partition: &Partition,
    scratch: &mut [Page],
) -> Result<(u64, Content), GptError> {
    const PAGES: usize = (FINGERPRINTED_BYTES / PAGE_BYTES) as usize;
    let mut words = [0; PAGES + 2];
    words[..2].copy_from_slice(&[partition.start, partition.length]);
    let length = partition.length.min(FINGERPRINTED_BYTES);
    let mut start = Window::new(disk, partition.start, length)?;
    let pages = to_usize(start.capacity() / PAGE_BYTES);
    let room = &mut scratch[..1];
    let mut recognition = Recognition::default();
    for (number, word) in (0..).zip(&mut words[2..][..pages]) {
        start.read(number * PAGE_BYTES, room)?;
        recognition.look(number, &room[0]);
        *word = checksum::of_words(&room[0].0);
    }
    Ok((checksum::of_words(&words), recognition.content()))
}

#[cfg(test)]
mod tests;
