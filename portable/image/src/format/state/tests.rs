use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

use super::*;

proptest! {
    /// All sections come back, each once, with any contents.
    #[test]
    fn sections_come_back(
        sections in prop::collection::btree_map(
            (any::<u32>(), any::<u16>()), (any::<u16>(), any::<Vec<u8>>()), 0..20,
        ),
    ) {
        let mut pages = vec![Page([!0; 512]); 2];
        let mut writer = StateWriter::new(&mut pages);
        for ((owner, number), (version, payload)) in &sections {
            writer.section(*owner, *number, *version, payload.as_slice()).unwrap();
        }
        let bytes = writer.finish();
        let mut read = StateSections::parse(&pages, bytes).unwrap();
        for ((owner, number), (version, payload)) in &sections {
            let section = read.take(*owner, *number).unwrap();
            prop_assert_eq!((section.version, section.payload), (*version, &payload[..]));
            prop_assert_eq!(read.take(*owner, *number), None);
        }
        prop_assert!(read.left().is_empty());
    }

    /// The lists of several domains write the same owners and numbers, and each takes out its own.
    /// The first domain's sections have the numbers that its list gives.
    #[test]
    fn sections_of_several_domains_do_not_clash(
        lists in prop::collection::vec(
            prop::collection::btree_map((0u32..4, 0u16..256), any::<u64>(), 0..6), 1..8,
        ),
    ) {
        let mut pages = vec![Page::ZERO; 2];
        let mut writer = StateWriter::new(&mut pages);
        for (domain, list) in (0..).zip(&lists) {
            writer.in_domain(domain, |writer| for ((owner, number), value) in list {
                writer.section(*owner, *number, 1, value).unwrap();
            });
        }
        let bytes = writer.finish();
        let mut read = StateSections::parse(&pages, bytes).unwrap();
        let first = read.left().iter().take(lists[0].len());
        let numbers: Vec<_> = first.map(|section| (section.owner, section.number)).collect();
        prop_assert!(numbers.iter().eq(lists[0].keys()));
        for (domain, list) in (0..).zip(&lists) {
            for ((owner, number), value) in list {
                let taken = read.in_domain(domain, |read| read.take_payload((*owner, 1), *number));
                prop_assert_eq!(taken, Ok(Some(value)));
            }
        }
        prop_assert!(read.left().is_empty());
    }

    /// It does not matter in which pieces a section is written.
    #[test]
    fn pieces_make_the_same_section(pieces in any::<Vec<Vec<u8>>>()) {
        let write = |by_pieces: bool| {
            let mut pages = vec![Page([!0; 512]); 1];
            let mut writer = StateWriter::new(&mut pages);
            let result = if by_pieces {
                let mut section = writer.begin(1, 2, 3);
                let pieces = pieces.iter().try_for_each(|piece| section.append(&piece[..]));
                pieces.and_then(|()| section.end())
            } else {
                writer.section(1, 2, 3, &pieces.concat()[..])
            };
            let bytes = writer.finish();
            let sections = StateSections::parse(&pages, bytes).unwrap();
            let payload = sections.left().first().map(|section| section.payload.to_vec());
            (result.is_ok(), payload, bytes)
        };
        prop_assert_eq!(write(true), write(false));
    }

    /// Small numbers, which are likely to make heads and lengths that fit.
    #[test]
    fn no_state_leads_astray(words in prop::collection::vec(0u64..40, 512), bytes in 0u64..=4096) {
        let page = [Page(words.try_into().unwrap())];
        if let Ok(sections) = StateSections::parse(&page, bytes) {
            let total: usize = sections.left().iter()
                .map(|section| HEAD_BYTES + section.payload.len().next_multiple_of(ALIGN))
                .sum();
            prop_assert_eq!(total as u64, bytes);
        }
    }
}

#[test]
fn a_section_that_does_not_fit_is_refused_whole() {
    let mut pages = [Page::ZERO];
    let mut writer = StateWriter::new(&mut pages);
    writer.section(1, 0, 1, &[0u64; 500]).unwrap();
    let error = StateError::NoRoom {
        owner: 2,
        needed: 88,
        left: 80,
    };
    assert_eq!(writer.section(2, 0, 1, &[1u64; 9]), Err(error));
    writer.section(3, 0, 1, &[1u64; 8]).unwrap();
    assert_eq!(writer.finish(), 4096);
    let sections = StateSections::parse(&pages, 4096).unwrap();
    let owners: Vec<_> = sections
        .left()
        .iter()
        .map(|section| section.owner)
        .collect();
    assert_eq!(owners, [1, 3]);
}

#[test]
fn a_section_that_is_there_twice_is_refused() {
    let mut pages = [Page::ZERO];
    let mut writer = StateWriter::new(&mut pages);
    writer.section(1, 0, 1, &[0u64; 1]).unwrap();
    writer.section(1, 1, 1, &[0u64; 1]).unwrap();
    writer.section(1, 0, 2, &[0u64; 2]).unwrap();
    let bytes = writer.finish();
    let twice = StateError::Twice {
        owner: 1,
        number: 0,
    };
    assert_eq!(StateSections::parse(&pages, bytes), Err(twice));
}

#[test]
fn more_sections_than_there_is_room_for_are_refused() {
    let mut pages = [Page::ZERO];
    let mut writer = StateWriter::new(&mut pages);
    for number in 0..65 {
        writer.section(1, number, 1, &[0u64; 0]).unwrap();
    }
    let bytes = writer.finish();
    let error = Err(StateError::TooMany);
    assert_eq!(StateSections::parse(&pages, bytes), error);
}

#[test]
fn payloads_are_what_their_owner_takes_or_an_error() {
    let section = StateSection {
        owner: 5,
        number: 0,
        version: 3,
        payload: &[0; 24],
    };
    assert!(section.read::<[u64]>(3).is_ok());
    assert!(section.read::<[u64; 3]>(3).is_ok());
    let error = StateError::Payload {
        owner: 5,
        version: 3,
        found: 24,
    };
    assert_eq!(section.read::<[u64; 4]>(3), Err(error));
    assert_eq!(section.read::<[u64; 3]>(4), Err(error));
}

#[test]
fn the_layout_of_a_section_is_pinned() {
    let mut pages = [Page::ZERO];
    let mut writer = StateWriter::new(&mut pages);
    writer
        .section(0x1234_5678, 0xdef0, 0x9abc, b"abcdefghi")
        .unwrap();
    assert_eq!(writer.finish(), 32);
    let wanted = [
        0xdef0_9abc_1234_5678,
        9,
        u64::from_le_bytes(*b"abcdefgh"),
        u64::from(b'i'),
    ];
    assert_eq!(pages[0].0[..4], wanted);
}
