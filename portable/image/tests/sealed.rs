//! Sealed images: nobody without the key can read one, change one, or pass one
//! off as another.

mod common;

use common::{HERE, MIB, Machine, committed, here, key};
use poorwill_image::{
    Here, ImageKind, LoadError, OpenError, Salt, SaveRequest, Seal, SealError, SectionKind,
    StateWriter, Trust, Workspace, inspect, open, save, verify,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{PAGE_BYTES, Page, checksum, to_usize};
use zerocopy::IntoBytes;

const PAGES: u64 = 600;

fn sealed() -> (Machine, FakeMedium, u64) {
    let mut machine = Machine::filled(&[PAGES], |_| true).sealing();
    let mut medium = FakeMedium::new(4 * MIB);
    let committed = machine.save(&mut medium).unwrap().header_checksum();
    (machine, medium, committed)
}

fn open_with(
    machine: &mut Machine,
    medium: &mut FakeMedium,
    header_checksum: u64,
    trust: Trust<'_>,
) -> Option<OpenError> {
    let workspace = Workspace::new(&mut machine.workspace, PAGES).unwrap();
    let here = Here {
        identity: HERE,
        os_pages: PAGES,
        trust,
        is_clear: false,
    };
    open(medium, committed(header_checksum), &here, workspace).err()
}

#[test]
fn every_way_not_to_fit_has_its_message() {
    let (mut machine, mut medium, sealed) = sealed();
    let mut plain_medium = FakeMedium::new(4 * MIB);
    machine.key = None;
    let plain = machine.save(&mut plain_medium).unwrap().header_checksum();
    let (right, other) = (key(7), key(8));
    let erased = |erased| Trust::NoKey { erased };
    let cases = [
        (true, Trust::Sealed(&right), None),
        (true, Trust::Sealed(&other), Some(SealError::OtherKey)),
        (true, erased(true), Some(SealError::Erased)),
        (true, erased(false), Some(SealError::NoKey)),
        (true, Trust::Plain, Some(SealError::NoPlace)),
        (false, Trust::Plain, None),
        (false, Trust::Sealed(&right), Some(SealError::NotSealed)),
        (false, erased(true), Some(SealError::NotSealed)),
        (false, erased(false), Some(SealError::NotSealed)),
    ];
    let mut messages = Vec::new();
    for (is_sealed, trust, wanted) in cases {
        let (medium, checksum) = if is_sealed {
            (&mut medium, sealed)
        } else {
            (&mut plain_medium, plain)
        };
        let found = open_with(&mut machine, medium, checksum, trust);
        assert_eq!(found, wanted.map(OpenError::Seal));
        messages.extend(found.map(|error| error.to_string()));
    }
    messages.sort();
    messages.dedup();
    assert_eq!(
        messages.len(),
        5,
        "five reasons, five messages: {messages:#?}"
    );
}

/// Changes words of the header and makes its checksum fit again, as somebody
/// can who has no key.
fn forge(medium: &mut FakeMedium, changes: &[(usize, u64)]) -> u64 {
    let mut header = Page::ZERO;
    header
        .as_mut_bytes()
        .copy_from_slice(&medium.bytes()[..4096]);
    for (word, value) in changes {
        header.0[*word] ^= value;
    }
    header.0[2] = checksum::of_words_but(&header.0, 2);
    medium.edit(|bytes| bytes[..4096].copy_from_slice(header.as_bytes()));
    header.0[2]
}

#[test]
fn every_bit_of_the_header_is_bound_in() {
    let (mut machine, mut medium, _) = sealed();
    let right = key(7);
    // From the time of the sleep to the tag's last word: the generation and
    // what comes before are compared earlier.
    for word in (4..=38).filter(|word| ![7, 8].contains(word)) {
        for bit in 0..64 {
            let checksum = forge(&mut medium, &[(word, 1 << bit)]);
            let error = open_with(&mut machine, &mut medium, checksum, Trust::Sealed(&right));
            assert!(error.is_some(), "word {word}, bit {bit}");
            forge(&mut medium, &[(word, 1 << bit)]);
        }
    }
    let checksum = forge(&mut medium, &[(4, 1)]);
    assert_eq!(
        open_with(&mut machine, &mut medium, checksum, Trust::Sealed(&right)),
        Some(OpenError::Seal(SealError::Forged))
    );
}

#[test]
fn another_generation_is_another_image() {
    let (mut machine, mut medium, _) = sealed();
    let right = key(7);
    let header_checksum = forge(&mut medium, &[(3, 1)]);
    let workspace = Workspace::new(&mut machine.workspace, PAGES).unwrap();
    let mut expected = committed(header_checksum);
    expected.generation ^= 1;
    let here = here(HERE, PAGES, Some(&right));
    let error = open(&mut medium, expected, &here, workspace).err();
    assert_eq!(error, Some(OpenError::Seal(SealError::Forged)));
}

#[test]
fn nothing_of_memory_can_be_read() {
    // What the list of strided fills tells of it is sealed, too.
    assert_eq!(unreadable(&Page([0x5ec2_e7a5_5ec2_e7a5; 512])), 0);
    let mut uneven = Page([0x5ec2_e7a5_5ec2_e7a5; 512]);
    uneven.0[511] = 0;
    assert_eq!(unreadable(&uneven), PAGES);
}

/// Seals a memory full of such pages, of which nothing can be read then; tells
/// how many are saved, each looking unlike the others.
fn unreadable(page: &Page) -> u64 {
    let mut machine = Machine::filled(&[PAGES], |_| false).sealing();
    for index in 0..PAGES {
        machine.memory.set(index, page);
    }
    let mut medium = FakeMedium::new(4 * MIB);
    let saved = machine.save(&mut medium).unwrap();
    let image = &medium.bytes()[4096..to_usize(saved.image_bytes())];
    assert!(
        !image
            .windows(4)
            .any(|bytes| bytes == 0x5ec2_e7a5u32.to_le_bytes())
    );
    // Equal pages do not look equal.
    let data = &medium.bytes()[to_usize(MIB)..to_usize(saved.image_bytes())];
    let mut pages: Vec<_> = data.chunks(4096).collect();
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len() as u64, saved.saved_pages());
    saved.saved_pages()
}

#[test]
fn a_changed_or_moved_piece_is_refused() {
    let (mut machine, mut medium, committed) = sealed();
    for sample in 0..60u64 {
        let byte = sample * 997 * 613 % (PAGES * PAGE_BYTES);
        medium.flip(MIB + byte, (sample % 8) as u8);
        let error = LoadError::DamagedPiece { piece: byte / MIB };
        assert_eq!(machine.load(&mut medium, committed).unwrap(), Err(error));
        let mut left = machine.memory.contents();
        left.retain(|page| *page != Page::ZERO);
        assert!(left.is_empty(), "{} pages are left in memory", left.len());
        assert_eq!(verified(&mut machine, &mut medium, committed), Err(error));
        medium.flip(MIB + byte, (sample % 8) as u8);
    }
    assert_eq!(verified(&mut machine, &mut medium, committed), Ok(()));
    // Two pieces, each as it was sealed, in each other's place.
    medium.edit(|bytes| {
        let (one, other) = bytes[to_usize(MIB)..].split_at_mut(to_usize(MIB));
        one.swap_with_slice(&mut other[..to_usize(MIB)]);
    });
    let error = LoadError::DamagedPiece { piece: 0 };
    assert_eq!(machine.load(&mut medium, committed).unwrap(), Err(error));
}

fn verified(
    machine: &mut Machine,
    medium: &mut FakeMedium,
    header_checksum: u64,
) -> Result<(), LoadError> {
    let workspace = Workspace::new(&mut machine.workspace, PAGES).unwrap();
    let key = key(7);
    let image = inspect(medium, committed(header_checksum), Some(&key), workspace).unwrap();
    verify(medium, &image, &mut vec![Page::ZERO; 100], &mut |_| ())
}

#[test]
fn parts_of_two_images_do_not_make_a_third() {
    let (mut machine, mut medium, _) = sealed();
    let older = medium.bytes().to_vec();
    machine.fill(2, |_| true);
    let committed = save_as(&mut machine, &mut medium, 4, Salt([6; 8]));
    let sections = [
        (1, Err(OpenError::Damaged(SectionKind::State))),
        (2, Err(OpenError::Damaged(SectionKind::Map))),
        (7, Err(OpenError::Damaged(SectionKind::Digests))),
        (256, Ok(LoadError::DamagedPiece { piece: 0 })),
        (513, Ok(LoadError::DamagedPiece { piece: 1 })),
    ];
    let newer = medium.bytes().to_vec();
    for (page, wanted) in sections {
        let bytes = page * 4096..(page + 1) * 4096;
        medium.edit(|medium| medium[bytes.clone()].copy_from_slice(&older[bytes]));
        let mut expected = common::committed(committed);
        expected.generation = 4;
        let os = machine.memory.os();
        let workspace = Workspace::new(&mut machine.workspace, PAGES).unwrap();
        let key = key(7);
        let here = here(HERE, PAGES, Some(&key));
        let found = open(&mut medium, expected, &here, workspace).map(|opened| {
            poorwill_image::load(&mut medium, &opened, os, &*machine.workers, &mut |_| ())
                .unwrap_err()
        });
        assert_eq!(found, wanted, "page {page}");
        medium.edit(|medium| medium.copy_from_slice(&newer));
    }
}

/// The same memory saved with other nonces looks like nothing seen before.
#[test]
fn a_generation_or_a_salt_makes_all_of_it_other() {
    let mut images = Vec::new();
    for (generation, salt) in [(3, 5), (4, 5), (3, 6)] {
        let mut machine = Machine::filled(&[PAGES], |_| true).sealing();
        let mut medium = FakeMedium::new(4 * MIB);
        save_as(&mut machine, &mut medium, generation, Salt([salt; 8]));
        images.push(medium.bytes()[to_usize(MIB)..].to_vec());
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let same = images[one].chunks(16).zip(images[other].chunks(16));
        let same = same.filter(|(one, other)| one == other && one.iter().any(|byte| *byte != 0));
        assert_eq!(same.count(), 0);
    }
}

fn save_as(machine: &mut Machine, medium: &mut FakeMedium, generation: u64, salt: Salt) -> u64 {
    let os = machine.memory.os();
    let mut workspace = Workspace::new(&mut machine.workspace, PAGES).unwrap();
    let mut state = StateWriter::new(workspace.state);
    state.section(7, 0, 1, &[generation]).unwrap();
    let key = key(7);
    let request = SaveRequest {
        identity: HERE,
        generation,
        kind: ImageKind::Once,
        saved_at_ns: 0,
        state_bytes: state.finish(),
        seal: Some(Seal { key: &key, salt }),
    };
    save(
        medium,
        os,
        &request,
        &mut workspace,
        &*machine.workers,
        &mut |_| (),
    )
    .unwrap()
    .header_checksum()
}
