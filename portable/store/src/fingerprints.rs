use core::fmt;

use arrayvec::ArrayVec;
use poorwill_medium::{Medium, Window};
use poorwill_memory::{PAGE_BYTES, Page, checksum, to_usize};
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::content::{Content, Recognition};
use crate::gpt::{GptError, MAX_PARTITIONS, Partition, find_others};

/// Detects a write to a partition since an image was made. An image stores one for each
/// partition of its disk, because its OS caches their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionFingerprint {
    partition: PartitionDigest,
    /// The number of the partition's [`Content`].
    content: u32,
    /// 1: the content cannot be guarded, and the user accepted that for this snapshot.
    is_accepted: u32,
}

/// The part of a fingerprint that older images have, too: the partition's identity and
/// checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PartitionDigest {
    guid: [u8; 16],
    /// Its name, padded with zeros.
    name: [u8; 40],
    /// Its disk. In images of before: the position among the device's disks.
    disk: DiskId,
    /// Its number on the disk, from 1.
    number: u32,
    /// The checksum of its place and its first [`FINGERPRINTED_BYTES`].
    digest: u64,
}

/// A disk of a device, by a number that outlasts a power-off: a namespace's own (NSID), or 0, which
/// no namespace has, for the device's memory. A position in a list would not do: a controller can
/// list other namespaces after a power-off than those that its OS had it list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct DiskId(pub u32);

impl DiskId {
    /// The device's memory, and the disk of a device with only one.
    pub const MEMORY: DiskId = DiskId(0);
}

/// The length of a partition's start that a fingerprint covers. It includes the
/// superblocks of ext4 and Btrfs, which change whenever an OS mounts them and writes. For
/// other contents, see [`PartitionFingerprint::unguarded`].
pub const FINGERPRINTED_BYTES: u64 = 128 << 10;

/// The fingerprints of a device's partitions.
pub type PartitionFingerprints = ArrayVec<PartitionFingerprint, MAX_PARTITIONS>;

/// The difference between the disk and its state at the time of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DiskChanged {
    /// The partition has been written to or moved.
    #[error("partition {0} has been written to since")]
    Written(PartitionName),
    /// The partition is missing.
    #[error("partition {0} is not there any more")]
    Gone(PartitionName),
}

/// A partition to which an OS may write without changing its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "partition {name} cannot be guarded: it holds {content}, which can change beyond its first \
     {} KiB",
    FINGERPRINTED_BYTES >> 10
)]
pub struct UnguardedPartition {
    /// The partition.
    pub name: PartitionName,
    /// What it holds.
    pub content: Content,
}

/// A partition's number and name, for messages.
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

    /// A digest of an image of before, whose disk is a position among the device's `disks`, with the
    /// disk's number.
    ///
    /// # Errors
    ///
    /// [`DiskChanged::Gone`]: no disk has that position.
    pub fn numbered(self, disks: &[DiskId]) -> Result<Self, DiskChanged> {
        let DiskId(position) = self.disk;
        let disk = disks.get(to_usize(position.into()));
        let disk = *disk.ok_or(DiskChanged::Gone(self.name()))?;
        Ok(PartitionDigest { disk, ..self })
    }

    fn is_of(&self, other: &PartitionDigest) -> bool {
        (self.disk, self.number, self.guid) == (other.disk, other.number, other.guid)
    }
}

impl PartitionFingerprint {
    /// The partition's identity and checksum.
    #[must_use]
    pub fn digest(&self) -> &PartitionDigest {
        &self.partition
    }

    /// The reason why it cannot detect all writes to the partition, if it cannot.
    #[must_use]
    pub fn unguarded(&self) -> Option<UnguardedPartition> {
        // A later version's number stands for a kind that this version does not know, and does not
        // guard.
        let content = Content::of_number(self.content).unwrap_or(Content::Unknown);
        (!content.is_guarded()).then(|| UnguardedPartition {
            name: self.partition.name(),
            content,
        })
    }

    /// Records the user's consent to a partition that cannot be guarded.
    pub fn accept(&mut self) {
        self.is_accepted = u32::from(self.unguarded().is_some());
    }

    /// Whether [`PartitionFingerprint::accept`] recorded a consent.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.is_accepted != 0
    }
}

/// Adds the fingerprints of a disk's partitions, except sleep areas. Nothing is written.
/// `scratch` holds at least one page.
///
/// # Errors
///
/// [`GptError`]; [`GptError::TooManyOthers`] if there is no room for a fingerprint.
pub fn fingerprint_partitions<M: Medium>(
    disk: &mut M,
    id: DiskId,
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
                disk: id,
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

/// The partition of `then` among those of `now`, if it is unchanged. New partitions are allowed.
///
/// # Errors
///
/// [`DiskChanged`].
pub fn unchanged<'n>(
    then: &PartitionDigest,
    now: &'n [PartitionFingerprint],
) -> Result<&'n PartitionFingerprint, DiskChanged> {
    match now.iter().find(|now| now.partition.is_of(then)) {
        Some(now) if now.partition.digest == then.digest => Ok(now),
        Some(_) => Err(DiskChanged::Written(then.name())),
        None => Err(DiskChanged::Gone(then.name())),
    }
}

/// A partition's digest and content.
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
