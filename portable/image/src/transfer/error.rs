use poorwill_medium::MediumError;
use thiserror::Error;

use crate::workers::PowerFails;

/// The workspace is too small for this machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the workspace has {given} pages; this much memory needs {needed}")]
pub struct NoRoom {
    /// Pages needed.
    pub needed: u64,
    /// Pages given.
    pub given: u64,
}

/// The reason why a machine was not saved. Nothing is committed then, and the OS
/// continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SaveError {
    /// The slot is too small for the memory in use.
    #[error(
        "the sleep area is too small: an image of {needed_bytes} bytes does not fit in a slot of {slot_bytes}"
    )]
    TooSmall {
        /// The image's length.
        needed_bytes: u64,
        /// The slot's length.
        slot_bytes: u64,
    },
    /// The workspace is too small.
    #[error(transparent)]
    Workspace(#[from] NoRoom),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The power fails.
    #[error(transparent)]
    PowerFails(#[from] PowerFails),
}

/// The reason why memory could not be restored. OS memory is then partially restored, and only a
/// cold boot is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// The digest of page data is wrong.
    #[error("piece {piece} of the image's page data is damaged")]
    DamagedPiece {
        /// The number of the piece, from 0.
        piece: u64,
    },
    /// The memory has another size than the image.
    #[error("the image is for {image_pages} pages of memory, this machine has {memory_pages}")]
    OtherMemory {
        /// The image's pages of OS memory.
        image_pages: u64,
        /// The machine's pages of OS memory.
        memory_pages: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}
