//! Images that are not what they were: none of them opens.

mod common;

use common::{Free, MIB, Machine, committed};
use poorwill_image::{
    FORMAT_VERSION, Header, HeaderError, OpenError, SectionKind, Workspace, inspect,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{FreeContents, PAGE_BYTES, Page, PageHasher, Run, checksum, to_usize};
use proptest::prelude::*;

fn image() -> (Machine, FakeMedium, u64) {
    image_of(Machine::filled(&[3, 5], |index| index % 2 == 0))
}

fn image_of(mut machine: Machine) -> (Machine, FakeMedium, u64) {
    let mut medium = FakeMedium::new(2 * MIB);
    let committed = machine.save(&mut medium).unwrap().header_checksum();
    (machine, medium, committed)
}

fn hash(page: &Page) -> u64 {
    let mut hasher = PageHasher::new();
    hasher.page(page);
    hasher.finish()
}

/// A machine whose images have something in every section.
fn machine_with_all() -> Machine {
    let mut machine = Machine::filled(&[3, 645], |index| index % 2 == 0 && index < 8);
    let run = Run {
        first: 8,
        pages: 600,
    };
    machine.free = Some(Free(vec![run], FreeContents::Anything));
    machine.fill_table(610..646);
    machine
}

/// Its pages: 0 is the header, 1 the state, 2 the map, 3 the free runs, 5 the
/// strided fills, 7 the digests.
const PAGES: [u64; 6] = [0, 1, 2, 3, 5, 7];

fn expected(byte: u64) -> OpenError {
    match byte / PAGE_BYTES {
        0 if byte < 8 => OpenError::Header(HeaderError::NotAnImage),
        0 => OpenError::Header(HeaderError::Damaged),
        1 => OpenError::Damaged(SectionKind::State),
        2 => OpenError::Damaged(SectionKind::Map),
        3 => OpenError::Damaged(SectionKind::Free),
        5 => OpenError::Damaged(SectionKind::StridedFills),
        _ => OpenError::Damaged(SectionKind::Digests),
    }
}

#[test]
fn every_single_bit_counts() {
    bit_by_bit(image_of(machine_with_all()), expected);
}

#[test]
fn every_single_bit_of_a_sealed_image_counts() {
    bit_by_bit(image_of(machine_with_all().sealing()), expected);
}

fn bit_by_bit(
    (mut machine, mut medium, committed): (Machine, FakeMedium, u64),
    expected: impl Fn(u64) -> OpenError,
) {
    let bytes = PAGES.map(|page| page * PAGE_BYTES..(page + 1) * PAGE_BYTES);
    for byte in bytes.into_iter().flatten() {
        for bit in 0..8 {
            medium.flip(byte, bit);
            assert_eq!(
                machine.open(&mut medium, committed),
                Err(expected(byte)),
                "byte {byte}, bit {bit}"
            );
            medium.flip(byte, bit);
        }
    }
    assert_eq!(machine.open(&mut medium, committed), Ok(()));
}

#[test]
fn an_empty_or_an_older_slot_is_no_image() {
    let (mut machine, mut medium, committed) = image();
    assert_eq!(
        machine.open(&mut medium, committed ^ 1),
        Err(OpenError::NotCommitted)
    );
    medium.edit(|bytes| bytes.fill(0));
    let error = OpenError::Header(HeaderError::NotAnImage);
    assert_eq!(machine.open(&mut medium, committed), Err(error));
}

#[test]
fn a_slot_cut_short_is_refused() {
    let (mut machine, medium, committed) = image();
    let image_bytes = MIB + 4 * PAGE_BYTES;
    for slot_bytes in (PAGE_BYTES..image_bytes).step_by(to_usize(PAGE_BYTES)) {
        let mut short = FakeMedium::new(slot_bytes);
        short.edit(|bytes| bytes.copy_from_slice(&medium.bytes()[..bytes.len()]));
        let error = OpenError::BeyondSlot {
            image_bytes,
            slot_bytes,
        };
        assert_eq!(machine.open(&mut short, committed), Err(error));
    }
}

#[test]
fn an_unknown_version_is_named() {
    let (mut machine, mut medium, _) = image();
    let found = FORMAT_VERSION + 1;
    let committed = forge(&mut medium, |header| {
        header.0[1] = header.0[1] & !0xffff | u64::from(found)
    });
    let error = HeaderError::Version {
        found,
        known: FORMAT_VERSION,
    };
    assert_eq!(machine.open(&mut medium, committed), Err(error.into()));
    assert_eq!(
        error.to_string(),
        "the image has format 8, this Poorwill reads format 7"
    );
}

/// Changes the header and makes its checksum fit again.
fn forge(medium: &mut FakeMedium, change: impl FnOnce(&mut Page)) -> u64 {
    use zerocopy::IntoBytes;
    let mut header = Page::ZERO;
    header
        .as_mut_bytes()
        .copy_from_slice(&medium.bytes()[..4096]);
    change(&mut header);
    header.0[2] = checksum::of_words_but(&header.0, 2);
    medium.edit(|bytes| bytes[..4096].copy_from_slice(header.as_bytes()));
    header.0[2]
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    // Words of the header: 5 os_pages, 6 saved_pages, 13.. sections of 5 words
    // each (kind, first page, bytes, digest): state, map, digests, data, free,
    // strided fills; 43.. the seal and the kind.
    let changes = [
        (5, u64::MAX),
        (6, 9),
        (7, 255),
        (8, 7),
        (8, 6 | 1 << 32),
        (14, 0),
        (14, 2),
        (15, u64::MAX),
        (15, 4097),
        (19, 1),
        (20, 8192),
        (24, 2),
        (25, 32),
        (29, 3),
        (29, u64::MAX),
        (30, 0),
        (34, 2),
        (34, u64::MAX),
        (35, 8),
        (35, 1 << 40),
        (39, 2),
        (39, u64::MAX),
        (40, 8),
        (40, 1 << 40),
        (43, 2),
        (43, 2 << 32),
        (44, 1),
        (46, 1),
        (48, 1),
        (49, 1),
        (511, 1),
    ];
    for (word, value) in changes {
        let (mut machine, mut medium, _) = image();
        let committed = forge(&mut medium, |header| {
            assert_ne!(header.0[word], value, "word {word} shall change");
            header.0[word] = value;
        });
        let error = machine.open(&mut medium, committed).unwrap_err();
        let refused = matches!(
            error,
            OpenError::Header(HeaderError::Invalid(_)) | OpenError::BeyondSlot { .. }
        );
        assert!(refused, "word {word} = {value}: {error:?}");
    }
}

#[test]
fn sections_larger_than_their_room_are_not_read() {
    let (mut machine, mut medium, _) = image();
    // 17 pages of state, one more than there is room for; all else moves up.
    let committed = forge(&mut medium, |header| {
        header.0[15] = 17 * PAGE_BYTES;
        header.0[19] = 20;
        header.0[34] = 21;
        header.0[39] = 23;
        header.0[24] = 25;
    });
    let error = OpenError::TooLarge(SectionKind::State);
    assert_eq!(machine.open(&mut medium, committed), Err(error));

    let (mut machine, mut medium, _) = image();
    let committed = forge(&mut medium, |header| {
        header.0[35] = 3 * PAGE_BYTES;
        header.0[39] = 6;
        header.0[24] = 8;
    });
    let error = OpenError::TooLarge(SectionKind::Free);
    assert_eq!(machine.open(&mut medium, committed), Err(error));

    let (mut machine, mut medium, _) = image();
    let committed = forge(&mut medium, |header| {
        header.0[40] = 144 * 57;
        header.0[24] = 8;
    });
    let error = OpenError::TooLarge(SectionKind::StridedFills);
    assert_eq!(machine.open(&mut medium, committed), Err(error));
}

#[test]
fn a_map_that_differs_from_the_header_is_refused() {
    for (map, reason) in [
        (0b1_0101_0101, "its map names pages that do not exist"),
        (
            0b0101_0111,
            "its map and its header differ in the number of pages",
        ),
    ] {
        let (mut machine, mut medium, _) = image();
        let mut page = Page::ZERO;
        page.0[0] = map;
        medium.edit(|bytes| bytes[8192..8200].copy_from_slice(&map.to_le_bytes()));
        let committed = forge(&mut medium, |header| header.0[21] = hash(&page));
        assert_eq!(
            machine.open(&mut medium, committed),
            Err(OpenError::Inconsistent(reason))
        );
    }
}

#[test]
fn free_runs_that_are_saved_are_refused() {
    let (mut machine, mut medium, _) = image();
    let mut page = Page::ZERO;
    // Page 2 is saved.
    page.0[..2].copy_from_slice(&[1, 2]);
    medium.edit(|bytes| {
        bytes[3 * 4096..][..16]
            .copy_from_slice(&[[1, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0]].concat())
    });
    let committed = forge(&mut medium, |header| {
        header.0[35] = 16;
        header.0[36] = hash(&page);
    });
    let reason = "it lists free pages that are saved, or that do not exist";
    assert_eq!(
        machine.open(&mut medium, committed),
        Err(OpenError::Inconsistent(reason))
    );
}

#[test]
fn strided_fills_in_pages_that_do_not_exist_are_refused() {
    let (mut machine, mut medium, _) = image();
    let mut page = Page::ZERO;
    page.0[..2].copy_from_slice(&[6, 3]);
    let words = [6u64, 3].map(u64::to_le_bytes).concat();
    medium.edit(|bytes| bytes[5 * 4096..][..16].copy_from_slice(&words));
    let committed = forge(&mut medium, |header| {
        header.0[40] = 144;
        header.0[41] = hash(&page);
    });
    let reason = "it lists strided fills in pages that are free, or that do not exist";
    assert_eq!(
        machine.open(&mut medium, committed),
        Err(OpenError::Inconsistent(reason))
    );
}

/// Values that lie near limits.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..64,
        (0u32..64).prop_map(|bit| 1 << bit),
        (0u64..64).prop_map(|n| u64::MAX - n)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn no_header_leads_astray(changes in prop::collection::vec((1usize..50, value()), 1..6)) {
        // Whatever a header with a fitting checksum says, opening it neither
        // panics nor reads beyond what there is.
        let (mut machine, mut medium, _) = image();
        let committed = forge(&mut medium, |header| {
            for (word, value) in changes {
                header.0[word] = value;
            }
        });
        let _ = machine.open(&mut medium, committed);
        let workspace = Workspace::new(&mut machine.workspace, 8).unwrap();
        let _ = inspect(&mut medium, self::committed(committed), None, workspace);
    }

    #[test]
    fn no_page_leads_astray(words in prop::collection::vec(any::<u64>(), 512)) {
        let page = Page(words.try_into().unwrap());
        prop_assert_eq!(Header::parse(&page), Err(HeaderError::NotAnImage));
    }
}

/// Only the commit says which of the two an image is to be.
#[test]
fn an_image_of_the_other_kind_is_not_the_one_that_was_committed() {
    let (mut machine, mut medium, _) = image();
    let committed = forge(&mut medium, |header| header.0[43] |= 1 << 32);
    assert_eq!(
        machine.open(&mut medium, committed),
        Err(OpenError::NotCommitted)
    );
}
