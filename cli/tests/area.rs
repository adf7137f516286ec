//! `poorwill area` on disks with images.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use common::{MIB, World};
use poorwill_image::{Alone, MachineIdentity, SaveRequest, Workspace, save};
use poorwill_medium::Window;
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::fake::FakeMemory;
use poorwill_memory::{Page, to_usize};
use poorwill_store::{Area, find_areas};

const IDENTITY: MachineIdentity = MachineIdentity {
    memory: 0x1111_1111_0000_0000,
    harts: 0x2222_2222_0000_0000,
    isa: 0x3333_3333_0000_0000,
    device_tree: 0x4444_4444_0000_0000,
};

/// A machine of 300 pages, 150 of them in use, sleeps on `file`; with `consume`
/// its image is marked as woken.
fn sleep_on(world: &World, file: &str, consume: bool) {
    let bytes = fs::read(world.path(file)).unwrap();
    let mut disk = FakeMedium::new(bytes.len() as u64);
    disk.edit(|room| room.copy_from_slice(&bytes));
    let mut scratch = [Page::ZERO];
    let location = find_areas(&mut disk, 512, &mut scratch).unwrap()[0];
    let mut memory = FakeMemory::new(&[300]);
    for index in (0..300).step_by(2) {
        memory.set(index, &Page([index + 1; 512]));
    }
    let os = memory.os();
    let mut pages = vec![Page::ZERO; to_usize(Workspace::pages_needed(os.pages()))];
    let mut workspace = Workspace::new(&mut pages, os.pages()).unwrap();
    {
        let window = Window::new(&mut disk, location.start, location.length).unwrap();
        let mut area = Area::open(window, &mut scratch[0], None).unwrap();
        let mut slot = area.begin().unwrap();
        let request = SaveRequest {
            identity: IDENTITY,
            generation: slot.generation(),
            saved_at_ns: 1_700_000_000_000_000_000,
            state_bytes: 0,
            seal: None,
        };
        let saved = save(
            &mut slot.medium().unwrap(),
            os,
            &request,
            &mut workspace,
            &Alone,
            &mut |_| (),
        )
        .unwrap();
        slot.commit(&saved).unwrap();
        if consume {
            let image = area.newest().unwrap();
            area.consume(&image).unwrap();
        }
    }
    fs::write(world.path(file), disk.bytes()).unwrap();
}

fn world_with_disk() -> World {
    let world = World::empty();
    let made = world.run(&["disk", "create", "disk", "--area", "16M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    world
}

#[test]
fn a_new_area_is_empty() {
    let world = world_with_disk();
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(
        outcome
            .out
            .starts_with("partition 1: sleep area of 16.00 MiB"),
        "{outcome:#?}"
    );
    assert!(
        outcome.out.contains("slot 0: empty\n  slot 1: empty"),
        "{outcome:#?}"
    );
}

#[test]
fn a_sleeping_machine_is_described_and_verified() {
    let world = world_with_disk();
    sleep_on(&world, "disk", false);
    let before = fs::read(world.path("disk")).unwrap();
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in [
        "committed, generation 1",
        "wakes at the next power-on",
        "saved 2023-11-14T22:13:20Z: 600.00 KiB of 1.17 MiB of RAM",
        "memory map 11111111, harts 22222222, instruction set 33333333, device tree 44444444",
        "verified: every checksum fits",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    assert_eq!(
        fs::read(world.path("disk")).unwrap(),
        before,
        "the disk was written"
    );
}

#[test]
fn json_says_the_same() {
    let world = world_with_disk();
    sleep_on(&world, "disk", false);
    let outcome = world.run(&["area", "disk", "--verify", "--json"]);
    let areas: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    let slots = areas[0]["slots"].as_array().unwrap();
    let slot = slots.iter().find(|slot| slot["wakes"] == true).unwrap();
    assert_eq!(slot["status"], "committed");
    assert_eq!(slot["generation"], 1);
    assert_eq!(slot["verdict"]["result"], "whole");
    assert_eq!(slot["image"]["saved_bytes"], 150 * 4096);
    assert_eq!(areas[0]["start"], MIB);
}

#[test]
fn a_consumed_image_does_not_wake() {
    let world = world_with_disk();
    sleep_on(&world, "disk", true);
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(
        outcome.out.contains("consumed, generation 1"),
        "{outcome:#?}"
    );
    assert!(
        !outcome.out.contains("wakes") && !outcome.out.contains("verified"),
        "{outcome:#?}"
    );
}

/// Every page of the image is covered by some checksum: a bit turned over in
/// any of them is found. (Pages between the sections and behind the image are
/// nobody's.)
#[test]
fn damage_is_found() {
    let world = world_with_disk();
    sleep_on(&world, "disk", false);
    let whole = fs::read(world.path("disk")).unwrap();
    let pattern = [7_u8; 4096]; // nothing of the image
    let used: Vec<_> = (0..whole.len() / 4096)
        .filter(|page| (to_usize(MIB)..to_usize(17 * MIB)).contains(&(page * 4096)))
        .filter(|page| whole[page * 4096..][..4096].iter().any(|byte| *byte != 0))
        .collect();
    assert!(used.len() > 150, "{}", used.len());
    // The first pages are records, header, map and digests; then some data.
    for page in used.iter().take(6).chain(used.iter().skip(6).step_by(40)) {
        fs::write(world.path("disk"), &whole).unwrap();
        let file = File::options()
            .write(true)
            .open(world.path("disk"))
            .unwrap();
        file.write_all_at(&pattern, *page as u64 * 4096).unwrap();
        let outcome = world.run(&["area", "disk", "--verify"]);
        assert_eq!(outcome.code, Some(1), "page {page}: {outcome:#?}");
        assert!(
            outcome.out.contains("DAMAGED") || outcome.out.contains("unusable"),
            "page {page}: {outcome:#?}"
        );
    }
}
