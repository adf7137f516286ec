use core::fmt;

use poorwill_memory::Page;
use thiserror::Error;

use crate::failure::Failure;

/// One of the two slots of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotId {
    /// Slot 0.
    First,
    /// Slot 1.
    Second,
}

impl SlotId {
    /// Both.
    pub const BOTH: [SlotId; 2] = [SlotId::First, SlotId::Second];

    /// 0 or 1.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            SlotId::First => 0,
            SlotId::Second => 1,
        }
    }

    /// The one that this is not.
    #[must_use]
    pub fn other(self) -> SlotId {
        match self {
            SlotId::First => SlotId::Second,
            SlotId::Second => SlotId::First,
        }
    }
}

impl fmt::Display for SlotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.index())
    }
}

/// Why an image will never wake though it was not consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DiscardReason {
    /// The machine went on to another sleep.
    NewSleep = 1,
    /// The machine was cold booted: the OS has gone on with its disks.
    ColdBoot = 2,
    /// The commit failed, and the OS went on.
    CommitFailed = 3,
    /// The record could not be read; what it said is not known.
    Unreadable = 4,
}

/// What has become of a slot's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// It may wake.
    Committed,
    /// It has woken, or its wake failed.
    Consumed {
        /// Why its wake failed.
        failure: Option<Failure>,
        /// A boot has named the failure already.
        reported: bool,
    },
    /// It will not wake.
    Discarded(DiscardReason),
}

/// What an area remembers of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// What has become of the image.
    pub state: SlotState,
    /// Number of the sleep.
    pub generation: u64,
    /// Where the slot lies in the area, in bytes; an area that was resized has
    /// its slots elsewhere.
    pub slot_offset: u64,
    /// Length of the slot in bytes.
    pub slot_bytes: u64,
    /// Checksum of the image's header, which stands for all of it.
    pub header_checksum: u64,
    /// Bytes of the slot that the image takes.
    pub image_bytes: u64,
}

/// Why a record cannot be read. Its slot has no image, then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Something else altogether.
    #[error("the slot's record is not Poorwill's")]
    NotARecord,
    /// The checksum does not fit: a write cut short, or damage.
    #[error("the slot's record is damaged")]
    Damaged,
    /// Written by a Poorwill with another format.
    #[error("the slot's record has format {found}, this Poorwill reads format {known}")]
    Version {
        /// The record's format version.
        found: u16,
        /// The version read here.
        known: u16,
    },
    /// The checksum fits and the contents do not: a writer's fault.
    #[error("the slot's record contradicts itself")]
    Invalid,
    /// The record is of slots that lie elsewhere.
    #[error("the sleep area has been resized since")]
    Resized,
}

/// What a record page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStatus {
    /// All zeros: never used.
    New,
    /// A record.
    Record(SlotRecord),
    /// Something that is no record.
    Unusable(RecordError),
}

impl SlotRecord {
    /// Reads a record page.
    ///
    /// # Errors
    ///
    /// See [`RecordError`].
    pub fn parse(page: &Page) -> Result<SlotRecord, RecordError> {
        let _ = page;
        todo!()
    }
}
