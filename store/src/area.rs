use poorwill_image::Saved;
use poorwill_medium::{Medium, MediumError, Window};
use poorwill_memory::Page;
use thiserror::Error;

use crate::choice::NoImage;
use crate::failure::Failure;
use crate::record::{DiscardReason, SlotId, SlotStatus};

/// Bytes of the smallest sleep area: its head, and two slots that hold an image
/// of hardly anything.
pub const MIN_AREA_BYTES: u64 = 5 << 20;

/// What goes wrong with a sleep area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The partition is too small to be a sleep area.
    #[error("the sleep area has {bytes} bytes, at least {MIN_AREA_BYTES} are needed")]
    TooSmall {
        /// Bytes of the partition.
        bytes: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The device said that it kept a record, and did not.
    #[error("the record of slot {0} reads back otherwise than it was written")]
    NotKept(SlotId),
    /// The image is not committed any more: a caller's fault.
    #[error("the image in slot {0} is not committed any more")]
    Stale(SlotId),
}

/// Why an image was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// There is no image, and the OS can go on.
    #[error("the image was not committed: {0}")]
    NotCommitted(StoreError),
    /// The medium failed so that nobody can tell whether there is an image. The
    /// OS must not go on: should the image wake one day, its disks would have
    /// changed behind its back. Reset the machine.
    #[error("nobody can tell whether the image was committed: {0}")]
    InDoubt(StoreError),
}

/// A sleep area, its records read.
#[derive(Debug)]
pub struct Area<'a, M> {
    medium: Window<'a, M>,
    scratch: &'a mut Page,
    slots: [SlotStatus; 2],
}

/// A committed image, found in an area. It must be consumed before it is
/// loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedImage {
    slot: SlotId,
    generation: u64,
    header_checksum: u64,
    image_bytes: u64,
}

/// The proof that an image is durably marked as consumed: it may be loaded now,
/// and will not be again.
#[derive(Debug, PartialEq, Eq)]
pub struct Consumed {
    slot: SlotId,
    generation: u64,
}

/// The proof that an image is committed: the machine may be powered off.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    generation: u64,
}

/// A slot that an image can be saved into.
#[derive(Debug)]
pub struct OpenSlot<'b, 'a, M> {
    area: &'b mut Area<'a, M>,
    slot: SlotId,
    generation: u64,
}

impl CommittedImage {
    /// The slot it lies in.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What [`poorwill_image::open`] expects of the image.
    #[must_use]
    pub fn header_checksum(&self) -> u64 {
        self.header_checksum
    }

    /// Bytes of the slot that the image takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }
}

impl Consumed {
    /// The slot that the image lies in.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Committed {
    /// Number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl<'a, M: Medium> Area<'a, M> {
    /// Reads the records of the area. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooSmall`], [`StoreError::Medium`].
    pub fn open(medium: Window<'a, M>, scratch: &'a mut Page) -> Result<Self, StoreError> {
        let _ = (medium, scratch);
        todo!()
    }

    /// What the two records say.
    #[must_use]
    pub fn slots(&self) -> &[SlotStatus; 2] {
        &self.slots
    }

    /// Bytes that an image may have.
    #[must_use]
    pub fn slot_bytes(&self) -> u64 {
        todo!()
    }

    /// The image that wakes now, if any.
    ///
    /// # Errors
    ///
    /// Why none does; see [`NoImage`].
    pub fn newest(&self) -> Result<CommittedImage, NoImage> {
        todo!()
    }

    /// A slot as a medium: for looking at an image or loading it.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] when the medium has shrunk.
    pub fn slot(&mut self, slot: SlotId) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        let _ = slot;
        todo!()
    }

    /// Makes room for a new image. Any older one is given up, durably, first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`]; an older image may then
    /// be committed still.
    pub fn begin(&mut self) -> Result<OpenSlot<'_, 'a, M>, StoreError> {
        todo!()
    }

    /// Marks an image as consumed, durably. Before this returns, not a byte of
    /// it may be put where the OS was.
    ///
    /// # Errors
    ///
    /// [`StoreError::Stale`] when the image is not committed any more;
    /// [`StoreError::Medium`], [`StoreError::NotKept`]: the image may be
    /// committed still, see [`Area::discard_all`].
    pub fn consume(&mut self, image: &CommittedImage) -> Result<Consumed, StoreError> {
        let _ = image;
        todo!()
    }

    /// Gives up every image there may be, and what cannot be read too. For a
    /// cold boot, before the next stage is started: once the OS has gone on
    /// with its disks, no earlier image may ever wake. Writes only when there
    /// is something to give up.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`]: an image may still be
    /// committed.
    pub fn discard_all(&mut self, reason: DiscardReason) -> Result<(), StoreError> {
        let _ = reason;
        todo!()
    }

    /// Notes why the wake of a consumed image failed.
    ///
    /// # Errors
    ///
    /// As [`Area::consume`].
    pub fn record_failure(&mut self, image: Consumed, failure: Failure) -> Result<(), StoreError> {
        let _ = (image, failure);
        todo!()
    }

    /// A wake that failed and that no boot has named yet.
    #[must_use]
    pub fn unreported_failure(&self) -> Option<(SlotId, Failure)> {
        todo!()
    }

    /// Notes that the failure in `slot` has been named.
    ///
    /// # Errors
    ///
    /// [`StoreError::Medium`], [`StoreError::NotKept`].
    pub fn mark_reported(&mut self, slot: SlotId) -> Result<(), StoreError> {
        let _ = slot;
        todo!()
    }
}

impl<'a, M: Medium> OpenSlot<'_, 'a, M> {
    /// Number of this sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The slot, to save into.
    ///
    /// # Errors
    ///
    /// [`MediumError::OutOfRange`] when the medium has shrunk.
    pub fn medium(&mut self) -> Result<Window<'_, Window<'a, M>>, MediumError> {
        self.area.slot(self.slot)
    }

    /// Commits the saved image: from the moment that its record is durable, it
    /// is the one that wakes.
    ///
    /// # Errors
    ///
    /// See [`CommitError`].
    pub fn commit(self, saved: &Saved) -> Result<Committed, CommitError> {
        let _ = saved;
        todo!()
    }
}
