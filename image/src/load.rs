use poorwill_medium::{Medium, MediumError};
use poorwill_memory::OsMemory;
use thiserror::Error;

use crate::Progress;
use crate::open::Opened;

/// The proof that all of memory is as it was when the machine went to sleep.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded {
    pub(crate) loaded_pages: u64,
}

impl Loaded {
    /// Pages read from the medium.
    #[must_use]
    pub fn loaded_pages(&self) -> u64 {
        self.loaded_pages
    }
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

/// Fills all of memory: saved pages from `slot`, every piece verified, the
/// others with zeros.
///
/// # Errors
///
/// See [`LoadError`]. The medium touches memory no more then.
pub fn load<M: Medium>(
    slot: &mut M,
    opened: &Opened<'_>,
    memory: &mut OsMemory,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, LoadError> {
    let _ = (slot, opened, memory, progress);
    todo!()
}
