use core::mem::offset_of;

use proptest::prelude::*;

use super::*;
use crate::parts::tests::{SLOT, sets};

#[test]
fn the_layout_is_pinned() {
    assert_eq!((OLDEST_RECORD_VERSION, RECORD_VERSION), (3, 4));
    let versions = [RecordFormat::Image, RecordFormat::Set].map(RecordFormat::version);
    assert_eq!(versions, [3, 4]);
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
        (offset_of!(RawRecord, parts), 128),
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
        parts: None,
    }
}

/// A record of a set of these parts, in a slot of [`SLOT`] bytes.
fn set_record(state: SlotState, parts: Parts) -> SlotRecord {
    SlotRecord {
        parts: Some(parts),
        ..record(state, [1, 2, SLOT, 0, parts.end()])
    }
}

fn parsed(record: &SlotRecord) -> Result<SlotRecord, RecordError> {
    let mut page = Page([!0; 512]);
    record.write(&mut page);
    SlotRecord::parse(&page)
}

#[test]
fn a_set_that_contradicts_itself_is_refused() {
    let consumed = SlotState::Consumed {
        failure: None,
        reported: false,
    };
    let discarded = SlotState::Discarded(DiscardReason::Unreadable);
    let none = |state| set_record(state, Parts::NONE);
    assert_eq!(parsed(&none(discarded)), Ok(none(discarded)));
    let snapshot = SlotState::Snapshot(BootAttempts::default());
    let mut parts = Parts::NONE;
    parts
        .push(crate::parts::tests::part(1, 0, 1), SLOT)
        .unwrap();
    let whole = set_record(SlotState::Committed, parts);
    assert_eq!(parsed(&whole), Ok(whole));
    let cases = [
        none(SlotState::Committed),
        none(consumed),
        set_record(snapshot, parts),
        SlotRecord {
            header_checksum: 1,
            ..whole
        },
        SlotRecord {
            image_bytes: 2,
            ..whole
        },
        SlotRecord {
            slot_bytes: 0,
            ..whole
        },
    ];
    for (number, wrong) in cases.iter().enumerate() {
        assert_eq!(parsed(wrong), Err(RecordError::Invalid), "case {number}");
    }
}

/// A record of version 3 has no parts.
#[test]
fn an_image_with_a_part_is_refused() {
    let mut page = Page::ZERO;
    record(SlotState::Committed, [1; 5]).write(&mut page);
    for word in [16, 63] {
        page.0[word] = 1;
        page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..RECORD_WORDS], CHECKSUM_WORD);
        assert_eq!(SlotRecord::parse(&page), Err(RecordError::Invalid));
        page.0[word] = 0;
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
        prop_assert_eq!(parsed(&record), Ok(record));
    }

    #[test]
    fn sets_come_back(state in states(), parts in sets()) {
        let record = set_record(state, parts);
        let right = match state {
            SlotState::Snapshot(_) => Err(RecordError::Invalid),
            _ => Ok(record),
        };
        prop_assert_eq!(parsed(&record), right);
    }

    #[test]
    fn no_set_leads_astray(state in states(), parts in sets(), word in 1_usize..64, value: u64) {
        let mut page = Page::ZERO;
        set_record(state, parts).write(&mut page);
        page.0[word] = value;
        page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..RECORD_WORDS], CHECKSUM_WORD);
        if let Ok(read) = SlotRecord::parse(&page) {
            prop_assert!(!read.may_wake() || read.parts.is_none() || !read.parts().is_empty());
            prop_assert_eq!(parsed(&read), Ok(read));
        }
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
    page.0[1] = page.0[1] & !0xffff | 5;
    page.0[CHECKSUM_WORD] = checksum::of_words_but(&page.0[..RECORD_WORDS], CHECKSUM_WORD);
    let error = RecordError::Version { found: 5, known: 4 };
    assert_eq!(SlotRecord::parse(&page), Err(error));
    assert_eq!(SlotStatus::read(&page, 1, 1), SlotStatus::Unusable(error));
    assert_eq!(
        std::format!("{error}"),
        "the slot's record has format 5, this Poorwill reads formats 3 to 4"
    );
}
