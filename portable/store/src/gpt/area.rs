//! Sleep areas on a disk, and limits of its partition table.

use arrayvec::ArrayVec;

/// The partition type of a sleep area, as text.
pub const AREA_TYPE: &str = "3063e3c3-c55c-4395-bc5f-8f60545ad228";

/// The most sleep areas on one disk.
pub const MAX_AREAS: usize = 8;

/// A sleep area's place on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaLocation {
    /// The offset of its first byte.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The partition's number, from 1, as in the OS.
    pub partition: u32,
}

/// The sleep areas of a disk, in the order of its partition table.
pub type Areas = ArrayVec<AreaLocation, MAX_AREAS>;

/// The most other partitions on one disk.
pub const MAX_PARTITIONS: usize = 32;

/// The highest number of a partition that Linux shows.
pub(super) const MAX_NUMBER: u32 = 255;

/// The most entries of a table that is read; most have 128.
pub(super) const MAX_ENTRIES: u32 = 8192;
