use poorwill_memory::{Page, checksum};
use thiserror::Error;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::failure::Failure;
use crate::name::{NAME_BYTES, Name};
use crate::slot::{BootAttempts, DiscardReason, SlotState};

/// The record of a slot's image.
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
    /// The checksum of the image's header, which covers the whole image.
    pub header_checksum: u64,
    /// The bytes of the slot that the image takes.
    pub image_bytes: u64,
    /// The duration of the sleep until its commit, in ms; 0: unknown.
    pub sleep_ms: u32,
    /// The snapshot's name; empty for other images.
    pub name: Name,
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
    #[error("the slot's record has format {found}, this Poorwill reads format {known}")]
    Version {
        /// The record's format version.
        found: u16,
        /// The version that this crate reads.
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

/// The version of a slot's record that this crate writes, and the only one it reads.
pub const RECORD_VERSION: u16 = 3;

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
    later: [u8; 384],
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
        if raw.format.get() != RECORD_VERSION {
            return Err(RecordError::Version {
                found: raw.format.get(),
                known: RECORD_VERSION,
            });
        }
        let later = raw.later.iter().any(|byte| *byte != 0);
        let beyond = raw.generation.get() > LAST_GENERATION;
        if beyond || later || raw.zero.get() != 0 {
            return Err(RecordError::Invalid);
        }
        Ok(SlotRecord {
            state: raw.slot_state().ok_or(RecordError::Invalid)?,
            generation: raw.generation.get(),
            slot_offset: raw.slot_offset.get(),
            slot_bytes: raw.slot_bytes.get(),
            header_checksum: raw.header_checksum.get(),
            image_bytes: raw.image_bytes.get(),
            sleep_ms: raw.sleep_ms.get(),
            name: Name::from_bytes(raw.name).ok_or(RecordError::Invalid)?,
        })
    }

    pub(crate) fn write(&self, page: &mut Page) {
        *page = Page::ZERO;
        let mut raw = RawRecord::new_zeroed();
        raw.magic = MAGIC;
        raw.format = RECORD_VERSION.into();
        raw.generation = self.generation.into();
        raw.slot_offset = self.slot_offset.into();
        raw.slot_bytes = self.slot_bytes.into();
        raw.header_checksum = self.header_checksum.into();
        raw.image_bytes = self.image_bytes.into();
        raw.sleep_ms = self.sleep_ms.into();
        raw.name = self.name.bytes();
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
mod tests {
    use core::mem::offset_of;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(RECORD_VERSION, 3);
        assert_eq!(&MAGIC, b"PWILSLOT");
        assert_eq!(CHECKSUM_WORD * 8, offset_of!(RawRecord, checksum));
        let offsets = [
            (offset_of!(RawRecord, magic), 0),
            (offset_of!(RawRecord, format), 8),
            (offset_of!(RawRecord, zero), 10),
            (offset_of!(RawRecord, state), 12),
            (offset_of!(RawRecord, checksum), 16),
            (offset_of!(RawRecord, generation), 24),
            (offset_of!(RawRecord, slot_offset), 32),
            (offset_of!(RawRecord, slot_bytes), 40),
            (offset_of!(RawRecord, header_checksum), 48),
            (offset_of!(RawRecord, image_bytes), 56),
            (offset_of!(RawRecord, discard_reason), 64),
            (offset_of!(RawRecord, failure_code), 68),
            (offset_of!(RawRecord, failure_detail), 72),
            (offset_of!(RawRecord, reported), 80),
            (offset_of!(RawRecord, sleep_ms), 84),
            (offset_of!(RawRecord, proven), 88),
            (offset_of!(RawRecord, tries), 92),
            (offset_of!(RawRecord, name), 96),
            (offset_of!(RawRecord, later), 128),
            (size_of::<RawRecord>(), 512),
        ];
        for (number, (found, right)) in offsets.into_iter().enumerate() {
            assert_eq!(found, right, "line {number}");
        }
    }

    #[test]
    fn the_numbers_are_pinned() {
        assert_eq!([COMMITTED, CONSUMED, DISCARDED, SNAPSHOT], [1, 2, 3, 4]);
        assert_eq!(
            DiscardReason::ALL.map(|reason| reason as u32),
            [1, 2, 3, 4, 5, 6, 7]
        );
    }

    fn failures() -> impl Strategy<Value = Failure> {
        prop_oneof![
            any::<u64>().prop_map(Failure::DamagedPiece),
            any::<u16>().prop_map(Failure::Device),
            any::<u32>().prop_map(Failure::TimedOut),
            any::<u32>().prop_map(Failure::State),
            any::<u32>().prop_map(Failure::Reset),
            (0u32..1 << 31, any::<u64>()).prop_map(|(code, detail)| Failure::Other(code, detail)),
        ]
    }

    fn states() -> impl Strategy<Value = SlotState> {
        prop_oneof![
            Just(SlotState::Committed),
            (prop::option::of(failures()), any::<bool>())
                .prop_map(|(failure, reported)| SlotState::Consumed { failure, reported }),
            prop::sample::select(&DiscardReason::ALL[..]).prop_map(SlotState::Discarded),
            (any::<bool>(), any::<u32>(), prop::option::of(failures())).prop_map(
                |(proven, tries, failure)| SlotState::Snapshot(BootAttempts {
                    proven,
                    tries,
                    failure,
                })
            ),
        ]
    }

    fn record(state: SlotState, numbers: [u64; 5]) -> SlotRecord {
        let [
            generation,
            slot_offset,
            slot_bytes,
            header_checksum,
            image_bytes,
        ] = numbers;
        SlotRecord {
            state,
            generation,
            slot_offset,
            slot_bytes,
            header_checksum,
            image_bytes,
            sleep_ms: 0,
            name: Name::NONE,
        }
    }

    proptest! {
        #[test]
        fn records_come_back(
            state in states(),
            numbers: [u64; 5],
            sleep_ms: u32,
            name in "[ -~]{0,32}",
        ) {
            let name = name.trim().parse().unwrap();
            let record = SlotRecord { sleep_ms, name, ..record(state, numbers) };
            let mut page = Page([!0; 512]);
            record.write(&mut page);
            prop_assert_eq!(SlotRecord::parse(&page), Ok(record));
        }

        #[test]
        fn no_record_leads_astray(state in states(), word in 1usize..64, value: u64) {
            let mut page = Page::ZERO;
            record(state, [1, 2, 3, 4, 5]).write(&mut page);
            page.0[word] = value;
            page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..RECORD_WORDS], CHECKSUM_WORD);
            let _ = SlotRecord::parse(&page);
        }
    }

    #[test]
    fn an_unknown_version_is_named() {
        let mut page = Page::ZERO;
        record(SlotState::Committed, [1; 5]).write(&mut page);
        page.0[1] = page.0[1] & !0xffff | 4;
        page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..RECORD_WORDS], CHECKSUM_WORD);
        let error = RecordError::Version { found: 4, known: 3 };
        assert_eq!(SlotRecord::parse(&page), Err(error));
        assert_eq!(SlotStatus::read(&page, 1, 1), SlotStatus::Unusable(error));
    }
}
