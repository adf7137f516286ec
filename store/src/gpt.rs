use arrayvec::ArrayVec;
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::Page;
use thiserror::Error;

/// The partition type of a sleep area, as text.
pub const AREA_TYPE: &str = "3063e3c3-c55c-4395-bc5f-8f60545ad228";

/// Sleep areas of one disk that are told apart; more are an error.
pub const MAX_AREAS: usize = 8;

/// Where a sleep area lies on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaLocation {
    /// First byte.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Number of the partition, from 1, as the OS counts.
    pub partition: u32,
}

/// The sleep areas of a disk, in the order of its partition table.
pub type Areas = ArrayVec<AreaLocation, MAX_AREAS>;

/// Why a disk's partition table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GptError {
    /// Both copies of the table are damaged.
    #[error("both copies of the partition table are damaged")]
    Damaged,
    /// A sleep area reaches beyond the disk.
    #[error("partition {0}, a sleep area, reaches beyond the end of the disk")]
    BeyondDisk(u32),
    /// More sleep areas than [`MAX_AREAS`].
    #[error("the disk has more than {MAX_AREAS} sleep areas")]
    TooMany,
    /// Blocks that are neither of 512 nor of 4096 bytes.
    #[error("the disk has blocks of {0} bytes; 512 and 4096 are known")]
    BlockSize(u32),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// Finds the sleep areas of a disk by its GPT. Nothing is written. A disk
/// without a GPT has none. `scratch` holds at least one page.
///
/// # Errors
///
/// See [`GptError`].
pub fn find_areas<M: Medium>(
    disk: &mut M,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<Areas, GptError> {
    let _ = (disk, block_bytes, scratch);
    todo!()
}
