//! `poorwill area --for`: what another firmware makes of a disk's images.

#[path = "common/asleep.rs"]
mod asleep;
mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use asleep::Asleep;
use common::{MIB, Outcome, World};
use poorwill_devicetree::{
    IDENTITY_RULE, PLACEMENT_RULE, harts_fingerprint, memory_fingerprint, place,
};
use poorwill_manifest::{
    CUT_SECTION, CutRecord, DataRange, Formats, MANIFEST_BYTES, Manifest, MemoryLayout,
    SectionVersion, Versions,
};
use poorwill_memory::{MachineIdentity, MemoryMap, PAGE_BYTES, PhysRange, checksum};
use poorwill_store::Purpose;

const CORE: u32 = u32::from_le_bytes(*b"CORE");
const CSRS: u32 = u32::from_le_bytes(*b"CSRS");

/// The firmware that saved the images of these tests.
fn saver() -> Manifest {
    Manifest {
        release: [0, 1, 0],
        formats: Formats::BUILT,
        layout: MemoryLayout {
            loaded: PhysRange::new(0x8000_0000, 256 << 10),
            placement_rule: PLACEMENT_RULE,
            identity_rule: IDENTITY_RULE,
            data: DataRange {
                fixed_pages: 16,
                hart_pages: 2,
                pages_per_page: [1024, 0, 0, 0],
            },
            cut: CutRecord::default(),
            executor_pages: 0,
        },
        sections: [CORE, CSRS]
            .map(|owner| SectionVersion { owner, version: 1 })
            .into_iter()
            .collect(),
    }
}

/// Bytes of that firmware's second range on the machine of these tests.
const DATA_BYTES: u64 = 2 << 20;

/// Pages that the OS of that machine has.
const OS_PAGES: u64 = 1200;

/// The machine of these tests: what its memory is, and that its OS has the rest.
fn identity(memory: &[PhysRange]) -> MachineIdentity {
    identity_with(memory, DATA_BYTES)
}

/// The same, of a firmware with another second range.
fn identity_with(memory: &[PhysRange], data_bytes: u64) -> MachineIdentity {
    let loaded = saver().layout.loaded;
    let data = place(memory, &[loaded], data_bytes).unwrap();
    let os = MemoryMap::new(memory, &[loaded, data]).unwrap();
    MachineIdentity {
        memory: memory_fingerprint(os.ranges()),
        harts: harts_fingerprint(0..2),
        isa: 3,
        device_tree: 4,
    }
}

/// One range of memory.
fn plain() -> MachineIdentity {
    let bytes = saver().layout.loaded.length() + DATA_BYTES + OS_PAGES * PAGE_BYTES;
    identity(&[PhysRange::new(0x8000_0000, bytes)])
}

/// A disk whose machine sleeps.
fn asleep(flash: Option<&str>, purpose: Purpose, identity: MachineIdentity) -> World {
    asleep_with(flash, purpose, identity, &[(CORE, 1), (CSRS, 1)])
}

/// The same with such sections of its state.
fn asleep_with(
    flash: Option<&str>,
    purpose: Purpose,
    identity: MachineIdentity,
    state: &'static [(u32, u16)],
) -> World {
    let world = World::empty();
    let made = world.run(&["disk", "create", "disk", "--area", "16M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    if let Some(flash) = flash {
        assert_eq!(world.run(&["key", "create", flash]).code, Some(0));
    }
    let asleep = Asleep {
        flash,
        os_pages: OS_PAGES,
        consume: false,
        purpose,
        identity,
        state,
    };
    asleep.on(&world, "disk");
    world
}

fn once() -> World {
    asleep(None, Purpose::Once, plain())
}

/// Writes a firmware file that says this of itself, in the middle of other bytes.
fn firmware(world: &World, manifest: &Manifest) {
    let mut file = vec![0x13; 70_001];
    file.extend(manifest.encode());
    file.extend([0x37; 9000]);
    fs::write(world.path("new.elf"), file).unwrap();
}

/// What the command says of `disk` for a firmware with this manifest.
fn ask(world: &World, manifest: &Manifest, more: &[&str]) -> Outcome {
    firmware(world, manifest);
    world.run(&[&["area", "disk", "--for", "new.elf"], more].concat())
}

fn says(outcome: &Outcome, code: i32, words: &str) {
    assert_eq!(outcome.code, Some(code), "{outcome:#?}");
    assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
}

const WAKES: &str = "wakes under that firmware\n";

#[test]
fn the_same_firmware_wakes_its_images() {
    let outcome = ask(&once(), &saver(), &[]);
    says(&outcome, 0, WAKES);
    let words = "that firmware: Poorwill 0.1.0, image format 7, slot record 3 to 4";
    says(&outcome, 0, words);
    let world = asleep(None, Purpose::Snapshot(poorwill_store::Name::NONE), plain());
    says(&ask(&world, &saver(), &[]), 0, WAKES);
}

#[test]
fn another_version_of_each_format_is_a_reason() {
    let later = Versions::only(900);
    let change = |change: fn(&mut Formats, Versions)| {
        let mut manifest = saver();
        change(&mut manifest.formats, later);
        manifest
    };
    let world = once();
    let cases = [
        (
            change(|formats, later| formats.image = later),
            "does NOT wake under that firmware: the image has format 7, and that firmware reads 900",
        ),
        (
            change(|formats, later| formats.record = later),
            "does NOT wake under that firmware: the slot's record has format 3, and",
        ),
        (
            change(|formats, later| formats.configuration = later),
            "under that firmware: the configuration has format 3, and that firmware reads 900: \
             it would take the default",
        ),
    ];
    for (manifest, words) in &cases {
        says(&ask(&world, manifest, &[]), 1, words);
    }
    let mut wide = saver();
    wide.formats.image.newest = 900;
    says(&ask(&world, &wide, &[]), 0, WAKES);
}

#[test]
fn a_sealed_image_wants_its_flash() {
    let world = asleep(Some("flash"), Purpose::Once, plain());
    says(
        &ask(&world, &saver(), &[]),
        1,
        "not known under that firmware: the image is sealed",
    );
    says(&ask(&world, &saver(), &["--flash", "flash"]), 0, WAKES);
    let mut other = saver();
    other.formats.vault = Versions::only(900);
    let words = "does NOT wake under that firmware: the vault has version 1";
    says(&ask(&world, &other, &["--flash", "flash"]), 1, words);
    // What can be told without the flash is.
    other.formats.image = Versions::only(900);
    says(&ask(&world, &other, &[]), 1, "the image has format 7");
}

#[test]
fn a_state_section_that_is_not_read_is_named() {
    let mut manifest = saver();
    manifest.sections[1].version = 2;
    let words = "that firmware does not read version 1 of the state section CSRS";
    says(&ask(&once(), &manifest, &[]), 1, words);
    manifest.sections.pop();
    says(&ask(&once(), &manifest, &[]), 1, words);
}

#[test]
fn a_machine_with_a_power_fail_line_leaves_its_os_less_memory() {
    let with_cuts = |fixed_bytes| {
        let mut manifest = saver();
        manifest.layout.cut.fixed_bytes = fixed_bytes;
        manifest.sections.push(SectionVersion {
            owner: CUT_SECTION,
            version: 1,
        });
        manifest
    };
    // Beside its 16 pages, this makes it 4 MiB.
    let (record, data_bytes) = (2 << 20, 4 << 20);
    says(&ask(&once(), &with_cuts(record), &[]), 0, WAKES);
    let bytes = saver().layout.loaded.length() + data_bytes + OS_PAGES * PAGE_BYTES;
    let memory = [PhysRange::new(0x8000_0000, bytes)];
    let world = |flash| {
        let identity = identity_with(&memory, data_bytes);
        let state = &[(CORE, 1), (CSRS, 1), (CUT_SECTION, 1)];
        asleep_with(flash, Purpose::Once, identity, state)
    };
    says(&ask(&world(None), &with_cuts(record), &[]), 0, WAKES);
    let words = "another memory map: that firmware reserves 0x200000 bytes";
    says(&ask(&world(None), &with_cuts(0), &[]), 1, words);
    // Whether its machine has a line a sealed image tells with its flash alone.
    let sealed = world(Some("flash"));
    let words = "not known under that firmware: the image is sealed";
    says(&ask(&sealed, &with_cuts(record), &[]), 1, words);
    says(
        &ask(&sealed, &with_cuts(record), &["--flash", "flash"]),
        0,
        WAKES,
    );
}

#[test]
fn other_reserved_memory_is_another_memory_map() {
    let world = once();
    let mut larger = saver();
    larger.layout.data.fixed_pages = 600;
    let words = "another memory map: that firmware reserves 0x400000 bytes";
    says(&ask(&world, &larger, &[]), 1, words);
    let mut stacks = saver();
    stacks.layout.data.hart_pages = 300;
    let words = "another memory map: that firmware reserves 0x400000 bytes";
    says(&ask(&world, &stacks, &[]), 1, words);
    let mut loaded = saver();
    loaded.layout.loaded = PhysRange::new(0x8000_0000, 512 << 10);
    says(&ask(&world, &loaded, &[]), 1, "another memory map");
    let mut hashed = saver();
    hashed.layout.identity_rule = 9;
    says(
        &ask(&world, &hashed, &[]),
        1,
        "does NOT wake under that firmware: that firmware computes",
    );
    let mut placed = saver();
    placed.layout.placement_rule = 9;
    says(
        &ask(&world, &placed, &[]),
        1,
        "not known under that firmware: that firmware places its memory by rule 9",
    );
}

#[test]
fn a_machine_that_cannot_be_guessed_is_not_guessed() {
    let bytes = saver().layout.loaded.length() + DATA_BYTES + (OS_PAGES - 8) * PAGE_BYTES;
    let memory = [
        PhysRange::new(0x8000_0000, bytes),
        PhysRange::new(0x1_0000_0000, 8 * PAGE_BYTES),
    ];
    let world = asleep(None, Purpose::Once, identity(&memory));
    let words = "not known under that firmware: the memory map cannot be predicted";
    says(&ask(&world, &saver(), &[]), 1, words);
}

#[test]
fn what_has_woken_is_not_asked_for() {
    let world = World::empty();
    let made = world.run(&["disk", "create", "disk", "--area", "16M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    let mut manifest = saver();
    manifest.formats.image = Versions::only(900);
    let outcome = ask(&world, &manifest, &[]);
    assert!(
        outcome.code == Some(0) && !outcome.out.contains("under that"),
        "{outcome:#?}"
    );
    let consumed = Asleep {
        flash: None,
        os_pages: OS_PAGES,
        consume: true,
        purpose: Purpose::Once,
        identity: plain(),
        state: &[],
    };
    consumed.on(&world, "disk");
    let outcome = ask(&world, &manifest, &[]);
    assert!(
        outcome.code == Some(0) && !outcome.out.contains("under that"),
        "{outcome:#?}"
    );
}

#[test]
fn json_has_the_forecast() {
    let world = once();
    let forecast = |manifest: &Manifest| {
        let outcome = ask(&world, manifest, &["--json"]);
        let areas: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
        let slots = areas[0]["slots"].as_array().unwrap();
        let slot = slots.iter().find(|slot| slot["status"] == "committed");
        slot.unwrap()["forecast"].clone()
    };
    assert_eq!(forecast(&saver()), serde_json::json!({"result": "wakes"}));
    let mut other = saver();
    other.formats.image = Versions::only(900);
    let told = forecast(&other);
    assert_eq!(told["result"], "refused");
    assert!(told["reason"].as_str().unwrap().contains("format 7"));
}

/// A record that a later Poorwill has written: this command cannot read it, and says
/// whether that firmware could.
#[test]
fn a_record_of_another_version_is_told_from_damage() {
    let world = once();
    let disk = File::options()
        .read(true)
        .write(true)
        .open(world.path("disk"))
        .unwrap();
    // Slot 0's record lies in the second page of the area.
    let at = MIB + PAGE_BYTES;
    let mut bytes = [0; 512];
    disk.read_exact_at(&mut bytes, at).unwrap();
    assert_eq!(&bytes[..8], b"PWILSLOT");
    bytes[8..10].copy_from_slice(&900_u16.to_le_bytes());
    let mut words: Vec<u64> = bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
        .collect();
    words[2] = checksum::of_words_but(&words, 2);
    bytes[16..24].copy_from_slice(&words[2].to_le_bytes());
    disk.write_all_at(&bytes, at).unwrap();

    let words = "does NOT wake under that firmware: the slot's record has format 900";
    says(&ask(&world, &saver(), &[]), 1, words);
    let mut later = saver();
    later.formats.record = Versions::only(900);
    let words = "not known under that firmware: this program reads slot records of formats 3 to 4, and this one has 900";
    says(&ask(&world, &later, &[]), 1, words);
}

#[test]
fn the_wake_of_a_set_is_not_foretold() {
    let world = asleep(None, Purpose::Set, plain());
    let words = "not known under that firmware: the wake of a set of several domains";
    says(&ask(&world, &saver(), &[]), 1, words);
    let mut older = saver();
    older.formats.record = Versions::only(3);
    let words = "does NOT wake under that firmware: the slot's record has format 4";
    says(&ask(&world, &older, &[]), 1, words);
}

#[test]
fn a_file_without_a_manifest_is_refused_by_name() {
    let world = once();
    let ask = || world.run(&["area", "disk", "--for", "new.elf"]);
    ask().refuses(1, &["new.elf", "No such file"]);
    fs::write(world.path("new.elf"), [7; 100_000]).unwrap();
    ask().refuses(1, &["new.elf: it has no manifest"]);
    let mut bytes = saver().encode();
    bytes[40] ^= 1;
    fs::write(world.path("new.elf"), bytes).unwrap();
    ask().refuses(1, &["new.elf: its manifest is damaged"]);
    let mut bytes = saver().encode();
    bytes[16] = 4;
    fs::write(world.path("new.elf"), bytes).unwrap();
    ask().refuses(
        1,
        &["new.elf: its manifest has version 4, and versions up to 3 are read here"],
    );
    fs::write(
        world.path("new.elf"),
        &saver().encode()[..MANIFEST_BYTES - 1],
    )
    .unwrap();
    ask().refuses(1, &["new.elf: it has no manifest"]);
}
