//! Sealed images: whatever is done to one by somebody without the key, it loads
//! as it was saved, or not at all.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::image::{IDENTITY, workspace};
use poorwill_fuzz::{Cases, Input, disk};
use poorwill_image::{
    Expected, Here, ImageKind, NoWorkers, Salt, SaveRequest, Seal, SealingKey, StateWriter, Trust,
    Workspace, give_back, load, open, save,
};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use poorwill_memory::{checksum, fake::FakeMemory};
use zerocopy::IntoBytes;

poorwill_fuzz::target!(max_len = 1024, run);

const PAGES: u64 = 6;

/// An image with six pages begins its data here.
const DATA: u64 = 1 << 20;

const BYTES: u64 = DATA + PAGES * PAGE_BYTES;

/// Pages of the slot in front of the data that are in use.
const HEAD_PAGES: u64 = 4;

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let key = SealingKey::new([input.any::<u8>(); 32]);
    let mut memory = FakeMemory::new(&[2, 4]);
    let mut slot = FakeMedium::new(BYTES);
    let images = [1, 2].map(|generation| {
        let header_checksum = sleep(&mut memory, &mut slot, &key, generation, &mut input);
        let image = (slot.bytes().to_vec(), memory.contents());
        (generation, header_checksum, image)
    });
    let chosen = to_usize(input.below(2));
    let (generation, header_checksum, (saved, contents)) = &images[chosen];
    let (_, _, (other, _)) = &images[1 - chosen];
    slot.edit(|bytes| bytes.copy_from_slice(saved));
    let header_checksum = tamper(&mut slot, other, *header_checksum, &mut input);
    let is_same = slot.bytes() == saved;
    memory.set(0, &Page([1; 512]));
    let expected = Expected {
        header_checksum,
        generation: *generation,
        kind: ImageKind::Once,
    };
    if wake(&mut slot, expected, &key, &mut memory) {
        assert!(
            memory.contents() == *contents,
            "other memory than was saved"
        );
    } else {
        assert!(!is_same, "an image that nobody touched is refused");
    }
    assert!(memory.gaps_are_intact(), "memory not the OS's was written");
}

fn sleep(
    memory: &mut FakeMemory,
    slot: &mut FakeMedium,
    key: &SealingKey,
    generation: u64,
    input: &mut Input<'_>,
) -> u64 {
    for index in 0..PAGES {
        let mut page = Page::ZERO;
        page.0[to_usize(input.below(512))] = input.any();
        memory.set(index, &page);
    }
    let mut room = workspace(PAGES);
    let mut workspace = Workspace::new(&mut room, PAGES).expect("enough room");
    let mut state = StateWriter::new(workspace.state);
    state.section(1, 0, 1, &[generation]).expect("enough room");
    let request = SaveRequest {
        identity: IDENTITY,
        generation,
        kind: ImageKind::Once,
        saved_at_ns: 0,
        state_bytes: state.finish(),
        seal: Some(Seal {
            key,
            salt: Salt([0; 8]),
        }),
    };
    let os = memory.os();
    let saved = save(slot, os, &request, &mut workspace, &NoWorkers, &mut |_| ());
    let saved = saved.expect("a medium without faults");
    give_back(&request, os, &mut workspace, &NoWorkers);
    saved.header_checksum()
}

/// Changes words of the header, whose checksum fits afterwards, turns over bits,
/// and takes pages of the other image; the header's checksum then.
fn tamper(slot: &mut FakeMedium, other: &[u8], header_checksum: u64, input: &mut Input<'_>) -> u64 {
    let mut header = Page::ZERO;
    for _ in 0..input.below(3) {
        let page = if input.one_in(2) {
            input.below(HEAD_PAGES)
        } else {
            DATA / PAGE_BYTES + input.below(PAGES)
        };
        let place = to_usize(page * PAGE_BYTES)..to_usize((page + 1) * PAGE_BYTES);
        slot.edit(|bytes| bytes[place.clone()].copy_from_slice(&other[place]));
    }
    for _ in 0..input.below(3) {
        let byte = if input.one_in(2) {
            input.below(HEAD_PAGES * PAGE_BYTES)
        } else {
            DATA + input.below(PAGES * PAGE_BYTES)
        };
        slot.flip(byte, input.any::<u8>() % 8);
    }
    let words = input.below(4);
    if words == 0 {
        return header_checksum;
    }
    header
        .as_mut_bytes()
        .copy_from_slice(&slot.bytes()[..to_usize(PAGE_BYTES)]);
    for _ in 0..words {
        let word = 1 + to_usize(input.below(40));
        header.0[word] = match input.below(3) {
            0 => header.0[word].wrapping_add(input.below(5)).wrapping_sub(2),
            1 => header.0[word] ^ 1 << input.below(64),
            _ => input.edgy(),
        };
    }
    header.0[2] = checksum::of_words_but(&header.0, 2);
    disk::put(slot, 0, header.as_bytes());
    header.0[2]
}

fn wake(
    slot: &mut FakeMedium,
    expected: Expected,
    key: &SealingKey,
    memory: &mut FakeMemory,
) -> bool {
    let mut room = workspace(PAGES);
    let workspace = Workspace::new(&mut room, PAGES).expect("enough room");
    let here = Here {
        identity: IDENTITY,
        os_pages: PAGES,
        trust: Trust::Sealed(key),
        is_clear: false,
    };
    let Ok(opened) = open(slot, expected, &here, workspace) else {
        return false;
    };
    load(slot, &opened, memory.os(), &NoWorkers, &mut |_| ()).is_ok()
}
