//! Tests of `poorwill-guest status --for`, which forecasts for another firmware.

mod common;

use std::fs;

use common::Machine;
use poorwill_manifest::{
    CutRecord, DataRange, Formats, MAX_TERMS, Manifest, MemoryLayout, SectionVersion, Versions,
};
use poorwill_medium::Window;
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::{MachineIdentity, MemoryMap, PAGE_BYTES, Page, PhysRange};
use poorwill_store::fake::Asleep;
use poorwill_store::{Area, Name, Purpose, RecordFormat};

use poorwill_devicetree::{
    IDENTITY_RULE, PLACEMENT_RULE, harts_fingerprint, memory_fingerprint, place,
};

const CORE: u32 = u32::from_le_bytes(*b"CORE");
const OS_PAGES: u64 = 1200;
const DATA_BYTES: u64 = 2 << 20;

/// The manifest of the firmware that saved the snapshot.
fn saver() -> Manifest {
    Manifest {
        release: [0, 1, 0],
        formats: Formats::BUILT,
        layout: MemoryLayout {
            loaded: PhysRange::new(0x8000_0000, 256 << 10),
            placement_rule: PLACEMENT_RULE,
            identity_rule: IDENTITY_RULE,
            data: DataRange {
                fixed_pages: DATA_BYTES / PAGE_BYTES,
                hart_pages: 0,
                pages_per_page: [0; MAX_TERMS],
            },
            cut: CutRecord::default(),
            executor_pages: 0,
        },
        sections: [SectionVersion {
            owner: CORE,
            version: 1,
        }]
        .into_iter()
        .collect(),
    }
}

fn identity() -> MachineIdentity {
    let loaded = saver().layout.loaded;
    let bytes = loaded.length() + DATA_BYTES + OS_PAGES * PAGE_BYTES;
    let memory = [PhysRange::new(loaded.start, bytes)];
    let data = place(&memory, &[loaded], DATA_BYTES).unwrap();
    let os = MemoryMap::new(&memory, &[loaded, data]).unwrap();
    MachineIdentity {
        memory: memory_fingerprint(os.ranges()),
        harts: harts_fingerprint(0..2),
        isa: 3,
        device_tree: 4,
    }
}

/// A machine with a snapshot in its only sleep area.
fn machine() -> Machine {
    let machine = Machine::with_area();
    let bytes = machine.device("nvme0n1p1");
    let mut disk = FakeMedium::new(bytes.len() as u64);
    disk.edit(|room| room.copy_from_slice(&bytes));
    let mut scratch = Page::ZERO;
    let window = Window::new(&mut disk, 0, bytes.len() as u64).unwrap();
    let asleep = Asleep {
        os_pages: OS_PAGES,
        one_used_in: 1000,
        purpose: Purpose::Snapshot(Name::NONE),
        identity: identity(),
        state: &[(CORE, 1)],
        key: None,
    };
    asleep.commit(&mut Area::open(window, &mut scratch, None, RecordFormat::Image).unwrap());
    fs::write(machine.path("dev/nvme0n1p1"), disk.bytes()).unwrap();
    machine
}

#[track_caller]
fn says(machine: &Machine, manifest: &Manifest, status: u8, words: &str) {
    let file = machine.path("new.elf");
    fs::write(
        &file,
        [&[1; 9000][..], &manifest.encode(), &[2; 9]].concat(),
    )
    .unwrap();
    let outcome = machine.run(&["status", "--for", file.to_str().unwrap()]);
    let err: &[&str] = match status {
        0 => &[],
        _ => &["that firmware may not wake all images in the sleep area"],
    };
    outcome.says(status, &["that firmware Poorwill 0.1.0", words], err);
}

#[test]
fn a_snapshot_is_told_of() {
    let machine = machine();
    let before = machine.device("nvme0n1p1");
    let same = saver();
    says(
        &machine,
        &same,
        0,
        "slot 0       wakes under that firmware\n",
    );
    let mut image = saver();
    image.formats.image = Versions::only(900);
    says(
        &machine,
        &image,
        1,
        "does NOT wake under that firmware: the image has format",
    );
    let mut record = saver();
    record.formats.record = Versions::only(900);
    says(
        &machine,
        &record,
        1,
        "the slot's record has format 3, and that firmware reads 900",
    );
    let mut state = saver();
    state.sections.clear();
    says(
        &machine,
        &state,
        1,
        "does not read version 1 of the state section CORE",
    );
    let mut memory = saver();
    memory.layout.data.fixed_pages += 1;
    says(&machine, &memory, 1, "another memory map");
    let mut configuration = saver();
    configuration.formats.configuration = Versions::only(900);
    says(
        &machine,
        &configuration,
        1,
        "the configuration has format 3",
    );
    assert!(machine.device("nvme0n1p1") == before, "it was written to");
}

#[test]
fn an_empty_area_has_nothing_to_lose() {
    let machine = Machine::with_area();
    let mut manifest = saver();
    manifest.formats.image = Versions::only(900);
    says(&machine, &manifest, 0, "Poorwill");
}

#[test]
fn a_file_without_a_manifest_is_refused() {
    let machine = Machine::with_area();
    let file = machine.path("new.elf");
    let ask = || machine.run(&["status", "--for", file.to_str().unwrap()]);
    ask().says(
        1,
        &[],
        &["cannot open the firmware file: there is no such file"],
    );
    fs::write(&file, [3; 10_000]).unwrap();
    ask().says(1, &[], &["the firmware file: it has no manifest"]);
}
