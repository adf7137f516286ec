use core::fmt;

use poorwill_memory::{Page, checksum};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::failure::Failure;
use crate::name::{NAME_BYTES, Name};
use crate::parts::{MAX_PARTS, Part, Parts, RawPart};
use crate::slot::{BootAttempts, DiscardReason, SlotState};

/// The format of a machine's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordFormat {
    /// A record is of one image: the machine has no domains, or a lone one.
    Image,
    /// A record is of a set: the machine has domains.
    Set,
}

impl RecordFormat {
    /// The version on the medium.
    #[must_use]
    pub const fn version(self) -> u16 {
        match self {
            RecordFormat::Image => OLDEST_RECORD_VERSION,
            RecordFormat::Set => RECORD_VERSION,
        }
    }

    fn of_version(version: u16) -> Option<RecordFormat> {
        [RecordFormat::Image, RecordFormat::Set]
            .into_iter()
            .find(|format| format.version() == version)
    }
}

/// Names the machine that writes this format.
impl fmt::Display for RecordFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordFormat::Image => "a machine without domains",
            RecordFormat::Set => "a machine with domains",
        })
    }
}

/// The record of a slot's image, or of its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRecord {
    /// The state of the image.
    pub state: SlotState,
    /// The number of the sleep.
    pub generation: u64,
    /// The offset of the slot in the area, in bytes. It differs after the area is
    /// resized.
    pub slot_offset: u64,
    /// The length of the slot in bytes.
    pub slot_bytes: u64,
    /// The checksum of the image's header, which covers the whole image; 0: it is a set.
    pub header_checksum: u64,
    /// The bytes of the slot that the image, or the set, takes.
    pub image_bytes: u64,
    /// The duration of the sleep until its commit, in ms; 0: unknown.
    pub sleep_ms: u32,
    /// The snapshot's name; empty for other images.
    pub name: Name,
    /// The parts of a set; `None`: it is an image. A discarded set may have none.
    pub parts: Option<Parts>,
}

/// The reason why a record cannot be read. Its slot then has no image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// The page holds other data.
    #[error("the slot's record is not Poorwill's")]
    NotARecord,
    /// The checksum is wrong: a write was interrupted, or the data is damaged.
    #[error("the slot's record is damaged")]
    Damaged,
    /// Another version of Poorwill wrote it.
    #[error(
        "the slot's record has format {found}, this Poorwill reads formats {OLDEST_RECORD_VERSION} to {known}"
    )]
    Version {
        /// The record's format version.
        found: u16,
        /// The newest version that this crate reads.
        known: u16,
    },
    /// The checksum is right, but the contents are not: a bug of the writer.
    #[error("the slot's record contradicts itself")]
    Invalid,
    /// The record's slots have other offsets than this area's.
    #[error("the sleep area has been resized since")]
    Resized,
}

/// The contents of a record's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "an area has two, and no heap to put them on"
)]
pub enum SlotStatus {
    /// All zeros: the slot was never used.
    New,
    /// A record.
    Record(SlotRecord),
    /// The page is not a valid record.
    Unusable(RecordError),
}

/// Marks a slot's record in every version.
const MAGIC: [u8; 8] = *b"PWILSLOT";

/// The newest version of a slot's record: that of sets.
pub const RECORD_VERSION: u16 = 4;

/// The oldest version of a slot's record that this crate reads: that of images.
pub const OLDEST_RECORD_VERSION: u16 = 3;

/// The highest number of a sleep; numbers start over after it.
pub(crate) const LAST_GENERATION: u64 = u64::MAX - 1;

/// The index of the checksum's word, in every version.
const CHECKSUM_WORD: usize = 2;

/// The words of a record: 512 bytes, which every device writes atomically.
const RECORD_WORDS: usize = 64;

const COMMITTED: u32 = 1;
const CONSUMED: u32 = 2;
const DISCARDED: u32 = 3;
const SNAPSHOT: u32 = 4;

/// A record's bytes on the medium, at the start of its page.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawRecord {
    magic: [u8; 8],
    format: U16,
    zero: U16,
    state: U32,
    checksum: U64,
    generation: U64,
    slot_offset: U64,
    slot_bytes: U64,
    header_checksum: U64,
    image_bytes: U64,
    discard_reason: U32,
    failure_code: U32,
    failure_detail: U64,
    reported: U32,
    sleep_ms: U32,
    proven: U32,
    tries: U32,
    name: [u8; NAME_BYTES],
    parts: [RawPart; MAX_PARTS],
}

const _: () = assert!(size_of::<RawRecord>() == RECORD_WORDS * 8);

impl SlotRecord {
    /// Parses a record's page.
    ///
    /// # Errors
    ///
    /// See [`RecordError`].
    pub fn parse(page: &Page) -> Result<SlotRecord, RecordError> {
        let words = &page.0[..RECORD_WORDS];
        let raw = RawRecord::ref_from_bytes(words.as_bytes()).map_err(|_| RecordError::Invalid)?;
        if raw.magic != MAGIC {
            return Err(RecordError::NotARecord);
        }
        if raw.checksum.get() != checksum::of_words_but(words, CHECKSUM_WORD) {
            return Err(RecordError::Damaged);
        }
        let format = RecordFormat::of_version(raw.format.get()).ok_or(RecordError::Version {
            found: raw.format.get(),
            known: RECORD_VERSION,
        })?;
        if raw.generation.get() > LAST_GENERATION || raw.zero.get() != 0 {
            return Err(RecordError::Invalid);
        }
        let record = SlotRecord {
            state: raw.slot_state().ok_or(RecordError::Invalid)?,
            generation: raw.generation.get(),
            slot_offset: raw.slot_offset.get(),
            slot_bytes: raw.slot_bytes.get(),
            header_checksum: raw.header_checksum.get(),
            image_bytes: raw.image_bytes.get(),
            sleep_ms: raw.sleep_ms.get(),
            name: Name::from_bytes(raw.name).ok_or(RecordError::Invalid)?,
            parts: raw.parts(format)?,
        };
        match record.is_consistent() {
            true => Ok(record),
            false => Err(RecordError::Invalid),
        }
    }

    /// The format of the record.
    #[must_use]
    pub fn format(&self) -> RecordFormat {
        match self.parts {
            None => RecordFormat::Image,
            Some(_) => RecordFormat::Set,
        }
    }

    /// The parts of a set; an image has none.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        self.parts.as_ref().map_or(&[], Parts::as_slice)
    }

    /// Whether the record has an image that may wake, at once or at every power-on.
    #[must_use]
    pub fn may_wake(&self) -> bool {
        matches!(self.state, SlotState::Committed | SlotState::Snapshot(_))
    }

    /// Whether a set's fields fit each other.
    fn is_consistent(&self) -> bool {
        let Some(parts) = &self.parts else {
            return true;
        };
        let is_allowed = match self.state {
            SlotState::Committed | SlotState::Consumed { .. } => !parts.as_slice().is_empty(),
            SlotState::Discarded(_) => true,
            SlotState::Snapshot(_) => false,
        };
        is_allowed && (self.header_checksum, self.image_bytes) == (0, parts.end())
    }

    pub(crate) fn write(&self, page: &mut Page) {
        *page = Page::ZERO;
        let mut raw = RawRecord::new_zeroed();
        raw.magic = MAGIC;
        raw.format = self.format().version().into();
        raw.generation = self.generation.into();
        raw.slot_offset = self.slot_offset.into();
        raw.slot_bytes = self.slot_bytes.into();
        raw.header_checksum = self.header_checksum.into();
        raw.image_bytes = self.image_bytes.into();
        raw.sleep_ms = self.sleep_ms.into();
        raw.name = self.name.bytes();
        if let Some(parts) = &self.parts {
            parts.write(&mut raw.parts);
        }
        match self.state {
            SlotState::Committed => raw.state = COMMITTED.into(),
            SlotState::Consumed { failure, reported } => {
                raw.state = CONSUMED.into();
                raw.put_failure(failure);
                raw.reported = u32::from(reported).into();
            }
            SlotState::Discarded(reason) => {
                raw.state = DISCARDED.into();
                raw.discard_reason = (reason as u32).into();
            }
            SlotState::Snapshot(attempts) => {
                raw.state = SNAPSHOT.into();
                raw.put_failure(attempts.failure);
                raw.proven = u32::from(attempts.proven).into();
                raw.tries = attempts.tries.into();
            }
        }
        let words = &mut page.0[..RECORD_WORDS];
        words.as_mut_bytes().copy_from_slice(raw.as_bytes());
        words[CHECKSUM_WORD] = checksum::of_words(words);
    }
}

impl RawRecord {
    fn put_failure(&mut self, failure: Option<Failure>) {
        let (code, detail) = failure.map_or((0, 0), Failure::to_parts);
        self.failure_code = code.into();
        self.failure_detail = detail.into();
    }

    fn failure(&self) -> Option<Failure> {
        Failure::from_parts(self.failure_code.get(), self.failure_detail.get())
    }

    /// The parts of a record of this format.
    fn parts(&self, format: RecordFormat) -> Result<Option<Parts>, RecordError> {
        match format {
            RecordFormat::Image if self.parts.iter().all(RawPart::is_unused) => Ok(None),
            RecordFormat::Image => Err(RecordError::Invalid),
            RecordFormat::Set => {
                let parts = Parts::parse(&self.parts, self.slot_bytes.get());
                parts.map(Some).ok_or(RecordError::Invalid)
            }
        }
    }

    fn slot_state(&self) -> Option<SlotState> {
        match self.state.get() {
            COMMITTED => Some(SlotState::Committed),
            CONSUMED => Some(SlotState::Consumed {
                failure: self.failure(),
                reported: self.reported.get() != 0,
            }),
            DISCARDED => {
                let reason = self.discard_reason.get();
                DiscardReason::ALL
                    .into_iter()
                    .find(|known| *known as u32 == reason)
                    .map(SlotState::Discarded)
            }
            SNAPSHOT => Some(SlotState::Snapshot(BootAttempts {
                proven: self.proven.get() != 0,
                tries: self.tries.get(),
                failure: self.failure(),
            })),
            _ => None,
        }
    }
}

impl SlotStatus {
    /// Parses the record of the slot of `bytes` bytes at `offset`.
    pub(crate) fn read(page: &Page, offset: u64, bytes: u64) -> SlotStatus {
        if page.is_zero() {
            return SlotStatus::New;
        }
        match SlotRecord::parse(page) {
            Ok(record) if (record.slot_offset, record.slot_bytes) == (offset, bytes) => {
                SlotStatus::Record(record)
            }
            Ok(_) => SlotStatus::Unusable(RecordError::Resized),
            Err(error) => SlotStatus::Unusable(error),
        }
    }

    /// The record, if it is readable.
    #[must_use]
    pub fn record(&self) -> Option<&SlotRecord> {
        match self {
            SlotStatus::Record(record) => Some(record),
            SlotStatus::New | SlotStatus::Unusable(_) => None,
        }
    }

    /// The record, if its image is committed.
    #[must_use]
    pub fn committed(&self) -> Option<&SlotRecord> {
        self.record()
            .filter(|record| record.state == SlotState::Committed)
    }

    /// The record, if it is a snapshot's.
    #[must_use]
    pub fn snapshot(&self) -> Option<(&SlotRecord, BootAttempts)> {
        let record = self.record()?;
        match record.state {
            SlotState::Snapshot(attempts) => Some((record, attempts)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
