use poorwill_medium::{Medium, MediumError};
use poorwill_memory::OsMemory;
use thiserror::Error;

use crate::Progress;
use crate::identity::MachineIdentity;
use crate::workspace::{NoRoom, Workspace};

/// What a save has to know beside memory.
#[derive(Clone, Copy, Debug)]
pub struct SaveRequest {
    /// The machine that goes to sleep.
    pub identity: MachineIdentity,
    /// The sleep's number, from the store.
    pub generation: u64,
    /// Now, in nanoseconds since 1970 (UTC); 0 when unknown.
    pub saved_at_ns: u64,
    /// Bytes of state in the workspace, from [`crate::StateWriter::finish`].
    pub state_bytes: u64,
}

/// The proof that a whole image is durable in a slot; the store takes it for a
/// commit.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    pub(crate) generation: u64,
    pub(crate) header_checksum: u64,
    pub(crate) image_bytes: u64,
    pub(crate) saved_pages: u64,
}

impl Saved {
    /// The sleep's number.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The checksum of the image's header, which stands for the whole image.
    #[must_use]
    pub fn header_checksum(&self) -> u64 {
        self.header_checksum
    }

    /// Bytes of the slot that the image takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    /// Pages of OS memory that were not zero.
    #[must_use]
    pub fn saved_pages(&self) -> u64 {
        self.saved_pages
    }
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
}

/// Saves memory, and the state that is in the workspace, into `slot` and makes
/// all of it durable. The other harts are stopped: memory does not change while
/// it is saved.
///
/// # Errors
///
/// See [`SaveError`]. The medium touches memory no more then.
pub fn save<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    request: &SaveRequest,
    workspace: &mut Workspace<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Saved, SaveError> {
    let _ = (slot, memory, request, workspace, progress);
    todo!()
}
