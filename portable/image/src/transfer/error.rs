use poorwill_medium::MediumError;
use thiserror::Error;

use crate::workers::PowerFails;

/// The workspace is too small for this machine's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{needed} pages of workspace are needed for this much memory, {given} are there")]
pub struct NoRoom {
    /// Pages needed.
    pub needed: u64,
    /// Pages given.
    pub given: u64,
}

/// Why a machine was not saved. Nothing is committed then, and the OS goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SaveError {
    /// The slot cannot hold what is used of memory.
    #[error(
        "the sleep area is too small: an image of {needed_bytes} bytes does not fit in a slot of {slot_bytes}"
    )]
    TooSmall {
        /// Bytes of the image.
        needed_bytes: u64,
        /// Bytes of the slot.
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

/// Why memory could not be restored. It is then neither the old machine's nor a
/// new one's: only a cold boot helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Page data does not fit its digest.
    #[error("piece {piece} of the image's page data is damaged")]
    DamagedPiece {
        /// Number of the piece, from 0.
        piece: u64,
    },
    /// The memory given is not the one that the image was opened for.
    #[error("the image is for {image_pages} pages of memory, there are {memory_pages}")]
    OtherMemory {
        /// Pages of OS memory that the image is for.
        image_pages: u64,
        /// Pages of OS memory given.
        memory_pages: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}
