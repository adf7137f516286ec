//! Images: one that loads gives just the memory that it says, and none makes
//! anything be written that is not OS memory.
#![cfg_attr(fuzzing, no_main)]

use poorwill_fuzz::image::{Forged, IDENTITY, here, workspace};
use poorwill_fuzz::{Cases, Input, disk};
use poorwill_image::{Expected, NoWorkers, StateWriter, Workspace, inspect, load, open, verify};
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{Page, to_usize};

poorwill_fuzz::target!(max_len = 4096, run);

/// What memory holds before.
const BEFORE: Page = Page([0x1111_2222_3333_4444; 512]);

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut memory = memory(&mut input);
    let os_pages = memory.os().pages();
    let state = state(&mut input);
    let mut image = Forged::new(&mut input, os_pages, &state);
    image.damage(&mut input);
    let is_sound = look(&mut image, os_pages);
    assert!(is_sound || !image.is_whole, "a whole image is refused");
    let contents = image.contents(os_pages, &BEFORE);
    let faults = !input.one_in(4);
    if faults {
        disk::inject(&mut image.slot, &mut input);
    }
    if wake(&mut image.slot, image.committed, &mut memory) {
        assert_eq!(
            Some(memory.contents()),
            contents,
            "other memory than the image's"
        );
        assert!(is_sound, "an image loads that does not verify");
    } else {
        assert!(faults || !is_sound, "an image verifies and does not load");
    }
    assert!(memory.gaps_are_intact(), "memory not the OS's was written");
}

fn memory(input: &mut Input<'_>) -> FakeMemory {
    // Now and then more than a piece.
    let mut ranges: Vec<u64> = (0..=input.below(3)).map(|_| 1 + input.below(20)).collect();
    if input.one_in(32) {
        ranges.push(300);
    }
    let mut memory = FakeMemory::new(&ranges);
    for index in 0..memory.os().pages() {
        memory.set(index, &BEFORE);
    }
    memory
}

fn state(input: &mut Input<'_>) -> Vec<u8> {
    if input.one_in(2) {
        return (0..input.below(64)).map(|_| input.any()).collect();
    }
    let mut pages = vec![Page::ZERO; 2];
    let mut writer = StateWriter::new(&mut pages);
    for _ in 0..input.below(4) {
        let payload: [u8; 13] = input.any();
        let _ = writer.section(
            input.any(),
            input.any(),
            input.any(),
            &payload[..to_usize(input.below(14))],
        );
    }
    let length = to_usize(writer.finish());
    zerocopy::IntoBytes::as_bytes(&pages[..])[..length].to_vec()
}

/// Whether an image that is only looked at is found to be good.
fn look(image: &mut Forged, os_pages: u64) -> bool {
    let mut room = workspace(os_pages);
    let workspace = Workspace::new(&mut room, os_pages).expect("enough room");
    let Ok(checked) = inspect(&mut image.slot, image.committed, None, workspace) else {
        return false;
    };
    let header = checked.header();
    assert_eq!(checked.map().count(), header.saved_pages);
    assert!(header.image_bytes() <= image.slot.bytes().len() as u64);
    let _ = checked.state().map(|state| state.left().len());
    let is_ours = header.identity == IDENTITY && header.os_pages == os_pages;
    let mut scratch = vec![Page::ZERO; 3];
    verify(&mut image.slot, &checked, &mut scratch, &mut |_| ()).is_ok() && is_ours
}

/// Opens and loads the image; whether it came to its end. Memory is untouched
/// until the image has been opened.
fn wake(slot: &mut FakeMedium, committed: Expected, memory: &mut FakeMemory) -> bool {
    let os_pages = memory.os().pages();
    let mut room = workspace(os_pages);
    let workspace = Workspace::new(&mut room, os_pages).expect("enough room");
    let opened = open(slot, committed, &here(os_pages), workspace);
    assert!(
        memory.contents().iter().all(|page| *page == BEFORE),
        "opening an image changes memory"
    );
    let Ok(opened) = opened else { return false };
    let mut done = 0;
    let loaded = load(slot, &opened, memory.os(), &NoWorkers, &mut |progress| {
        assert!(done <= progress.done_pages && progress.done_pages <= progress.total_pages);
        done = progress.done_pages;
    });
    loaded.is_ok_and(|loaded| {
        assert_eq!(loaded.loaded_pages(), opened.header().saved_pages);
        true
    })
}
