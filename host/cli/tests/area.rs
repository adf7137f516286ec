//! `poorwill area` on disks with images, and `poorwill area set`.

#[path = "common/asleep.rs"]
mod asleep;
mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use asleep::{Asleep, DOMAINS};
use common::{MIB, World, open_vault};
use indicatif::ProgressBar;
use poorwill_machine::disk::NewDisk;
use poorwill_machine::size::Bytes;
use poorwill_memory::checksum::name_hash;
use poorwill_memory::{MachineIdentity, to_usize};
use poorwill_store::Purpose;
use poorwill_vault::RollbackCounter;
use rustix::fs::{FlockOperation, fcntl_lock};

const IDENTITY: MachineIdentity = MachineIdentity {
    memory: 0x1111_1111_0000_0000,
    harts: 0x2222_2222_0000_0000,
    isa: 0x3333_3333_0000_0000,
    device_tree: 0x4444_4444_0000_0000,
};

/// A machine of 300 pages, 150 of them in use, sleeps on `file`; with `consume`
/// its image is marked as woken.
fn sleep_on(world: &World, file: &str, consume: bool) {
    sleep_with(world, file, None, consume);
}

/// The same, sealed with the key in `flash` if there is one.
fn sleep_with(world: &World, file: &str, flash: Option<&str>, consume: bool) {
    sleep_for(world, file, flash, consume, Purpose::Once);
}

fn sleep_for(world: &World, file: &str, flash: Option<&str>, consume: bool, purpose: Purpose) {
    let asleep = Asleep {
        flash,
        os_pages: 300,
        consume,
        purpose,
        identity: IDENTITY,
        state: &[],
    };
    asleep.on(world, file);
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
        "verified: all checksums match",
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

/// A disk whose domains sleep as a set, in slot 0.
fn world_with_set(flash: Option<&str>, consume: bool) -> World {
    let world = world_with_disk();
    if let Some(flash) = flash {
        assert_eq!(world.run(&["key", "create", flash]).code, Some(0));
    }
    sleep_for(&world, "disk", flash, consume, Purpose::Set);
    world
}

#[test]
fn each_part_of_a_set_is_described_and_verified() {
    let world = world_with_set(None, false);
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let hashes = DOMAINS.map(|name| format!("{:016x}", name_hash(name)));
    for words in [
        "committed, generation 1, a set of 2",
        "wakes at the next power-on",
        &format!("part 0, domain with name hash {}: 1.59 MiB\n", hashes[0]),
        &format!("part 1, domain with name hash {}: 1.59 MiB\n", hashes[1]),
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    for words in [
        "600.00 KiB of 1.17 MiB of RAM",
        "verified: all checksums match",
    ] {
        assert_eq!(outcome.out.matches(words).count(), 2, "{outcome:#?}");
    }
    let json = world.run(&["area", "disk", "--verify", "--json"]);
    let slot = slot_of(&json.out);
    assert_eq!(
        (&slot["wakes"], &slot["image"]),
        (&true.into(), &serde_json::Value::Null)
    );
    for (part, hash) in slot["parts"].as_array().unwrap().iter().zip(hashes) {
        assert_eq!(part["name_hash"], hash);
        assert_eq!(part["verdict"]["result"], "whole");
        assert_eq!(part["image"]["saved_bytes"], 150 * 4096);
    }
}

#[test]
fn damage_of_one_part_is_found() {
    let world = world_with_set(None, false);
    let disk = File::options()
        .write(true)
        .open(world.path("disk"))
        .unwrap();
    // The second part's header: after the first part's header, 1 MiB with its sections, and data.
    let second = MIB + MIB + MIB + 150 * 4096;
    disk.write_all_at(&[7], second + 100).unwrap();
    let json = world.run(&["area", "disk", "--verify", "--json"]);
    assert_eq!(json.code, Some(1), "{json:#?}");
    let slot = slot_of(&json.out);
    let verdicts = [0, 1].map(|part| slot["parts"][part]["verdict"]["result"].clone());
    assert_eq!(verdicts, ["whole", "damaged"]);
}

#[test]
fn a_consumed_set_does_not_wake() {
    let world = world_with_set(None, true);
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(
        outcome.out.contains("consumed, generation 1, a set of 2"),
        "{outcome:#?}"
    );
    let is_quiet = !outcome.out.contains("wakes") && !outcome.out.contains("verified");
    assert!(is_quiet, "{outcome:#?}");
}

#[test]
fn a_sealed_set_is_verified_with_its_flash() {
    let world = world_with_set(Some("flash"), false);
    let outcome = world.run(&WITH_FLASH);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(
        outcome.out.contains("wakes at the next power-on"),
        "{outcome:#?}"
    );
    assert_eq!(
        outcome.out.matches("all tags match").count(),
        2,
        "{outcome:#?}"
    );
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.out.matches("not verified: it is sealed").count(), 2);
}

/// A disk whose machine sleeps with a sealed image, and its flash.
fn world_with_sealed_image() -> World {
    let world = world_with_disk();
    assert_eq!(world.run(&["key", "create", "flash"]).code, Some(0));
    sleep_with(&world, "disk", Some("flash"), false);
    world
}

fn key_id(world: &World, flash: &str) -> String {
    let shown = world.run(&["key", flash, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&shown.out).unwrap();
    report["key_id"].as_str().unwrap().to_owned()
}

fn slot_of(out: &str) -> serde_json::Value {
    let areas: serde_json::Value = serde_json::from_str(out).unwrap();
    let slots = areas[0]["slots"].as_array().unwrap();
    let slot = slots.iter().find(|slot| slot["status"] == "committed");
    slot.unwrap().clone()
}

const WITH_FLASH: [&str; 5] = ["area", "disk", "--verify", "--flash", "flash"];

#[test]
fn a_sealed_image_is_verified_with_its_flash() {
    let world = world_with_sealed_image();
    let before = (
        fs::read(world.path("disk")).unwrap(),
        fs::read(world.path("flash")).unwrap(),
    );
    let outcome = world.run(&WITH_FLASH);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let sealed = format!("sealed with key {}", key_id(&world, "flash"));
    for words in [
        &*sealed,
        "wakes at the next power-on",
        "verified: all tags match",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    let json = world.run(&[&WITH_FLASH[..], &["--json"]].concat());
    let slot = slot_of(&json.out);
    assert_eq!(slot["verdict"]["result"], "whole");
    assert_eq!(slot["wakes"], true);
    assert_eq!(slot["refused"], serde_json::Value::Null);
    assert_eq!(slot["image"]["sealed_with"], key_id(&world, "flash"));
    let after = (
        fs::read(world.path("disk")).unwrap(),
        fs::read(world.path("flash")).unwrap(),
    );
    assert!(before == after, "something was written");
}

#[test]
fn a_sealed_image_without_its_flash_is_not_damaged() {
    let world = world_with_sealed_image();
    let outcome = world.run(&["area", "disk"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.out.contains("sealed with key"), "{outcome:#?}");
    let outcome = world.run(&["area", "disk", "--verify"]);
    assert_eq!(outcome.code, Some(1), "it was not verified: {outcome:#?}");
    assert!(
        outcome.out.contains("not verified: it is sealed") && outcome.out.contains("--flash FILE"),
        "{outcome:#?}"
    );
    assert!(!outcome.out.contains("DAMAGED"), "{outcome:#?}");
    let json = world.run(&["area", "disk", "--verify", "--json"]);
    assert_eq!(slot_of(&json.out)["verdict"]["result"], "sealed");
}

#[test]
fn another_flash_is_told_from_damage() {
    let world = world_with_sealed_image();
    assert_eq!(world.run(&["key", "create", "other"]).code, Some(0));
    let other = ["area", "disk", "--verify", "--flash", "other"];
    let outcome = world.run(&other);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    for words in [
        "not verified: it is sealed with another key",
        "does not wake: it is sealed with another key",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    let json = world.run(&[&other[..], &["--json"]].concat());
    let slot = slot_of(&json.out);
    assert_eq!(slot["verdict"]["result"], "other-key");
    assert_eq!(slot["wakes"], false);
    let erased = world.run(&["key", "erase", "flash", "--yes"]);
    assert_eq!(erased.code, Some(0), "{erased:#?}");
    let outcome = world.run(&WITH_FLASH);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(outcome.out.contains("the key was erased"), "{outcome:#?}");
}

#[test]
fn an_image_that_was_put_back_is_whole_and_does_not_wake() {
    let world = world_with_sealed_image();
    let old = fs::read(world.path("disk")).unwrap();
    sleep_with(&world, "disk", Some("flash"), true);
    fs::write(world.path("disk"), &old).unwrap();
    let outcome = world.run(&WITH_FLASH);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in ["verified: all tags match", "does not wake", "copied back"] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    // The record of one that was consumed, put back as committed.
    let world = world_with_sealed_image();
    let old = fs::read(world.path("disk")).unwrap();
    open_vault(&world.path("flash")).disarm().unwrap();
    fs::write(world.path("disk"), &old).unwrap();
    let outcome = world.run(&WITH_FLASH);
    assert!(
        outcome
            .out
            .contains("does not wake: sleep 1 was interrupted, or its image was used or discarded"),
        "{outcome:#?}"
    );
}

#[test]
fn a_plain_image_does_not_wake_where_images_are_sealed() {
    let world = world_with_disk();
    sleep_on(&world, "disk", false);
    assert_eq!(world.run(&["key", "create", "flash"]).code, Some(0));
    let outcome = world.run(&WITH_FLASH);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in [
        "verified: all checksums match",
        "does not wake: it is not sealed",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
}

/// As `damage_is_found`, of a sealed image.
#[test]
fn damage_of_a_sealed_image_is_found() {
    let world = world_with_sealed_image();
    let whole = fs::read(world.path("disk")).unwrap();
    let used: Vec<_> = (257..whole.len() / 4096 - 256)
        .filter(|page| whole[page * 4096..][..4096].iter().any(|byte| *byte != 0))
        .collect();
    assert!(used.len() > 150, "{}", used.len());
    let sample = used.iter().take(6).chain(used.iter().skip(6).step_by(40));
    for page in sample {
        let mut bytes = whole.clone();
        bytes[page * 4096 + 40] ^= 4;
        fs::write(world.path("disk"), &bytes).unwrap();
        let outcome = world.run(&WITH_FLASH);
        assert_eq!(outcome.code, Some(1), "page {page}: {outcome:#?}");
        assert!(
            outcome.out.contains("DAMAGED") || outcome.out.contains("unusable"),
            "page {page}: {outcome:#?}"
        );
    }
}

#[test]
fn run_keeps_a_sealed_image_from_a_machine_without_its_flash() {
    let world = World::with_qemu("touch started");
    let made = world.run(&["disk", "create", "disk", "--area", "16M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    assert_eq!(world.run(&["key", "create", "flash"]).code, Some(0));
    sleep_with(&world, "disk", Some("flash"), false);
    world
        .run(&["run", "--disk", "disk"])
        .refuses(1, &["sleeps", "sealed", "--flash FILE"]);
    assert!(!world.path("started").exists());
    let outcome = world.run(&["run", "--disk", "disk", "--flash", "flash"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.err.contains("waking it") && outcome.err.contains("asleep"));
    let outcome = world.run(&["run", "--disk", "disk", "--flash", "other"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(
        outcome.err.contains("does not wake") && outcome.err.contains("switched off"),
        "{outcome:#?}"
    );
}

fn configuration_of(world: &World) -> serde_json::Value {
    let outcome = world.run(&["area", "disk", "--json"]);
    let areas: serde_json::Value = serde_json::from_str(&outcome.out).unwrap();
    areas[0]["configuration"].clone()
}

fn set(world: &World, change: &[&str]) {
    let outcome = world.run(&[&["area", "set", "disk"], change].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
}

#[test]
fn the_sleep_mode_is_shown_and_set() {
    let world = world_with_disk();
    let outcome = world.run(&["area", "disk"]);
    let words = "sleep mode: persist, or cut where RAM is persistent\n    stage delay 30m, break-even not set\n";
    assert!(outcome.out.contains(words), "{outcome:#?}");

    set(&world, &["--mode", "staged", "--delay", "90s"]);
    let outcome = world.run(&["area", "disk"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let words = "sleep mode: staged, persists after 1m 30s\n";
    assert!(outcome.out.contains(words), "{outcome:#?}");
    let staged = serde_json::json!({
        "mode": "staged", "mode_is_chosen": true, "stage_delay_ms": 90_000,
        "break_even_ms": null,
        "stage_after_ms": 90_000, "error": null, "next_snapshot": null,
        "accepts_unguarded": false,
        "snapshot_tries": 3, "snapshot_trial_ms": 60_000, "snapshot_key_ms": 0,
    });
    assert_eq!(configuration_of(&world), staged);

    // What is not named stays.
    set(&world, &["--mode", "auto", "--break-even", "55min"]);
    let auto = serde_json::json!({
        "mode": "auto", "mode_is_chosen": true, "stage_delay_ms": 90_000,
        "break_even_ms": 3_300_000,
        "stage_after_ms": 3_300_000, "error": null, "next_snapshot": "kiosk",
        "accepts_unguarded": false,
        "snapshot_tries": 0, "snapshot_trial_ms": 5_000, "snapshot_key_ms": 500,
    });
    set(
        &world,
        &["--next-snapshot", "kiosk", "--snapshot-tries", "0"],
    );
    set(
        &world,
        &["--snapshot-trial", "5s", "--snapshot-key", "500ms"],
    );
    assert_eq!(configuration_of(&world), auto);
    set(&world, &["--break-even", "none"]);
    let configuration = configuration_of(&world);
    assert_eq!(configuration["break_even_ms"], serde_json::Value::Null);
    assert_eq!(configuration["stage_after_ms"], 90_000);
    set(&world, &["--mode", "retain"]);
    let configuration = configuration_of(&world);
    assert_eq!(configuration["stage_after_ms"], serde_json::Value::Null);
}

#[test]
fn a_snapshot_beside_what_cannot_be_guarded_wants_an_option() {
    let world = World::empty();
    let disk = NewDisk {
        root: None,
        swap: Some(Bytes::mib(1)),
        areas: vec![Bytes::mib(5)],
    };
    let path = world.path("disk");
    disk.create(&path, false, &ProgressBar::hidden()).unwrap();
    set(&world, &["--next-snapshot", "empty"]);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(b"SWAPSPACE2", (1 << 20) + 4096 - 10)
        .unwrap();
    let ask = ["area", "set", "disk", "--next-snapshot", "kiosk"];
    let outcome = world.run(&ask);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    let words = "partition 1 (\"swap\") cannot be guarded: it holds swap";
    assert!(outcome.err.contains(words), "{outcome:#?}");
    assert!(outcome.err.contains("--unguarded"), "{outcome:#?}");
    assert_eq!(configuration_of(&world)["next_snapshot"], "empty");

    let outcome = world.run(&[&ask[..], &["--unguarded"]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.out.contains(words), "{outcome:#?}");
    let configuration = configuration_of(&world);
    assert_eq!(configuration["next_snapshot"], "kiosk");
    assert_eq!(configuration["accepts_unguarded"], true);
}

#[test]
fn the_image_of_a_machine_that_sleeps_stays() {
    let world = world_with_sealed_image();
    let before = fs::read(world.path("disk")).unwrap();
    set(&world, &["--mode", "retain"]);
    let outcome = world.run(&WITH_FLASH);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    for words in ["sleep mode: retain", "verified: all tags match"] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    let after = fs::read(world.path("disk")).unwrap();
    let changed: Vec<_> = (0..after.len() / 4096)
        .filter(|page| before[page * 4096..][..4096] != after[page * 4096..][..4096])
        .collect();
    assert_eq!(changed, [to_usize(MIB) / 4096], "pages that changed");
}

#[test]
fn wrong_settings_are_wrong_usage() {
    let world = world_with_disk();
    let before = fs::read(world.path("disk")).unwrap();
    let refusals: [(&[&str], &[&str]); 7] = [
        (&[], &["--mode", "--delay", "--break-even"]),
        (&["--mode", "mem"], &["persist", "retain", "staged", "auto"]),
        (&["--delay", "0s"], &["stage delay", "1 ms", "30 days"]),
        (&["--delay", "31days"], &["stage delay", "30 days"]),
        (&["--delay", "none"], &["none"]),
        (&["--delay", "30"], &["30"]),
        (&["--break-even", "900us"], &["break-even", "1 ms"]),
    ];
    for (change, words) in refusals {
        let outcome = world.run(&[&["area", "set", "disk"], change].concat());
        outcome.refuses(2, words);
    }
    assert!(fs::read(world.path("disk")).unwrap() == before);
}

#[test]
fn a_damaged_configuration_is_named_and_mended() {
    let world = world_with_disk();
    set(&world, &["--mode", "staged"]);
    let disk = File::options().write(true).open(world.path("disk"));
    disk.unwrap().write_all_at(&[1], MIB + 24).unwrap();
    let outcome = world.run(&["area", "disk"]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    for words in [
        "sleep mode: persist, or cut where RAM is persistent\n",
        "UNUSABLE",
        "damaged",
        "poorwill area set",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    let outcome = world.run(&["area", "set", "disk", "--mode", "auto"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let words = "note: the sleep area's configuration is damaged";
    assert!(outcome.out.contains(words), "{outcome:#?}");
    assert_eq!(configuration_of(&world)["error"], serde_json::Value::Null);
}

#[test]
fn a_disk_that_cannot_be_configured_says_why() {
    let world = world_with_disk();
    let to_auto = |disk| world.run(&["area", "set", disk, "--mode", "auto"]);
    to_auto("nothing").refuses(1, &["nothing", "No such file"]);
    fs::write(world.path("blank"), [0; 1 << 20]).unwrap();
    to_auto("blank").refuses(1, &["no GPT partition table"]);
    fs::write(world.path("wrapped"), b"QFI\xfb and more").unwrap();
    to_auto("wrapped").refuses(1, &["qcow2"]);
    let two = NewDisk {
        root: None,
        swap: None,
        areas: vec![Bytes::mib(8), Bytes::mib(8)],
    };
    let bar = ProgressBar::hidden();
    two.create(&world.path("two"), false, &bar).unwrap();
    to_auto("two").refuses(1, &["2 sleep areas"]);
}

#[test]
fn a_disk_in_use_is_not_configured() {
    let world = world_with_disk();
    let before = fs::read(world.path("disk")).unwrap();
    let options = File::options().read(true).write(true).clone();
    let holder = options.open(world.path("disk")).unwrap();
    fcntl_lock(&holder, FlockOperation::LockShared).unwrap();
    let process = format!("process {}", std::process::id());
    world
        .run(&["area", "set", "disk", "--mode", "retain"])
        .refuses(
            1,
            &["disk disk is in use by", &process, "end that process first"],
        );
    // Looking is allowed.
    assert_eq!(world.run(&["area", "disk"]).code, Some(0));
    assert!(fs::read(world.path("disk")).unwrap() == before);
}

fn snapshot_of(world: &World, disk: &str, flash: Option<&str>) -> serde_json::Value {
    let flash: Vec<&str> = flash.map_or(vec![], |flash| vec!["--flash", flash]);
    let words = [&["area", disk, "--verify", "--json"][..], &flash].concat();
    let areas: serde_json::Value = serde_json::from_str(&world.run(&words).out).unwrap();
    let slots = areas[0]["slots"].as_array().unwrap();
    let slot = slots.iter().find(|slot| slot["status"] == "snapshot");
    slot.cloned().unwrap_or_default()
}

#[track_caller]
fn done(world: &World, words: &[&str]) {
    let outcome = world.run(words);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
}

/// A disk with a snapshot called `kiosk`.
fn world_with_snapshot(flash: Option<&str>) -> World {
    let world = world_with_disk();
    if let Some(flash) = flash {
        done(&world, &["key", "create", flash]);
    }
    let purpose = Purpose::Snapshot("kiosk".parse().unwrap());
    sleep_for(&world, "disk", flash, false, purpose);
    world
}

#[test]
fn a_snapshot_is_shown_named_and_deleted() {
    let world = world_with_snapshot(None);
    let outcome = world.run(&["area", "disk", "--verify"]);
    for words in [
        "snapshot \"kiosk\" (not tried yet), generation 1",
        "wakes at the next power-on",
        "verified: all checksums match",
    ] {
        assert!(outcome.out.contains(words), "no {words:?}: {outcome:#?}");
    }
    done(&world, &["area", "name", "disk", "lobby"]);
    assert_eq!(snapshot_of(&world, "disk", None)["name"], "lobby");
    let outcome = world.run(&["area", "name", "disk", "caf\u{e9}"]);
    assert_eq!(outcome.code, Some(2), "{outcome:#?}");
    done(&world, &["area", "delete", "disk"]);
    assert_eq!(snapshot_of(&world, "disk", None), serde_json::Value::Null);
    let outcome = world.run(&["area", "delete", "disk"]);
    assert_eq!(outcome.code, Some(1), "{outcome:#?}");
    assert!(outcome.err.contains("holds no snapshot"), "{outcome:#?}");
}

#[test]
fn a_snapshot_goes_to_machines_with_and_without_flash() {
    for flash in [None, Some("flash")] {
        let world = world_with_snapshot(flash);
        let mut export = vec!["area", "export", "disk", "product"];
        if let Some(flash) = flash {
            let outcome = world.run(&export);
            assert_eq!(outcome.code, Some(1), "it takes the key: {outcome:#?}");
            assert!(!world.path("product").exists());
            export.extend(["--flash", flash]);
        }
        done(&world, &export);
        let outcome = world.run(&export);
        assert_eq!(outcome.code, Some(1), "{outcome:#?}");
        assert!(outcome.err.contains("exists"), "{outcome:#?}");
        done(&world, &["disk", "create", "plain", "--area", "8M"]);
        done(
            &world,
            &["area", "import", "product", "plain", "--name", "unit 2"],
        );
        let slot = snapshot_of(&world, "plain", None);
        assert_eq!(slot["name"], "unit 2");
        assert_eq!(slot["verdict"]["result"], "whole");
        assert_eq!(slot["wakes"], true);
        done(&world, &["disk", "create", "sealed", "--area", "8M"]);
        done(&world, &["key", "create", "other"]);
        done(
            &world,
            &["area", "import", "product", "sealed", "--flash", "other"],
        );
        let slot = snapshot_of(&world, "sealed", Some("other"));
        assert_eq!(slot["verdict"]["result"], "whole");
        assert_eq!(slot["wakes"], true);
        assert_eq!(slot["image"]["sealed_with"], key_id(&world, "other"));
        // Another machine's flash knows nothing of it.
        done(&world, &["key", "create", "third"]);
        assert_eq!(snapshot_of(&world, "sealed", Some("third"))["wakes"], false);
        done(&world, &["area", "delete", "sealed", "--flash", "other"]);
    }
}

/// A change of the bytes of a disk.
type Change = fn(&mut [u8]);

/// Changes the entries in both copies of a partition table, and corrects the checksums.
fn edit_tables(disk: &mut [u8], edit: impl Fn(&mut [u8])) {
    let blocks = disk.len() / 512;
    for (header, array) in [(1, 2), (blocks - 1, blocks - 33)] {
        let entries = &mut disk[array * 512..][..128 * 128];
        edit(entries);
        let checksum = crc32(entries);
        let header = &mut disk[header * 512..][..92];
        header[88..].copy_from_slice(&checksum.to_le_bytes());
        header[16..20].fill(0);
        let checksum = crc32(header);
        header[16..20].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The checksum of GPT (UEFI 2.10, section 4.2: CRC-32 of ISO-HDLC).
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 * (crc & 1));
    let add = |crc, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(u32::MAX, add)
}

/// Faults of a disk for which the firmware refuses its area, each with a text of the reason.
fn faults() -> [(Change, &'static str); 4] {
    [
        (
            |disk| {
                disk[1024..4096].fill(0);
                disk[4086..4096].copy_from_slice(b"SWAPSPACE2");
            },
            "only in the backup of the partition table",
        ),
        (
            |disk| {
                edit_tables(disk, |entries| {
                    let (area, other) = entries.split_at_mut(128);
                    other[..128].copy_from_slice(area);
                    other[..32].fill(1);
                });
            },
            "partition 1, a sleep area, overlaps partition 2",
        ),
        (
            |disk| {
                edit_tables(disk, |entries| {
                    entries[32..40].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0])
                })
            },
            "partition 1, a sleep area, overlaps the partition table",
        ),
        (
            |disk| {
                // The last usable block is the last but one of the area.
                for header in [1, disk.len() / 512 - 1] {
                    let last = 17u64 * 2048 - 2;
                    disk[header * 512..][48..56].copy_from_slice(&last.to_le_bytes());
                }
                edit_tables(disk, |_| {});
            },
            "not within the partition table's usable blocks, 34 to 34814",
        ),
    ]
}

#[test]
fn an_area_that_the_firmware_refuses_is_refused_by_each_command() {
    for (fault, text) in faults() {
        let world = world_with_disk();
        sleep_on(&world, "disk", false);
        let good = world.run(&["doctor", "disk"]);
        assert!(
            good.out.contains("disk: partition 1, 16.00 MiB"),
            "{good:#?}"
        );
        let mut bytes = fs::read(world.path("disk")).unwrap();
        fault(&mut bytes);
        fs::write(world.path("disk"), &bytes).unwrap();
        for words in [
            &["area", "disk"][..],
            &["area", "disk", "--verify"],
            &["area", "disk", "--json"],
            &["area", "set", "disk", "--mode", "staged"],
            &["area", "set", "disk", "--next-snapshot"],
            &["area", "name", "disk", "new"],
            &["area", "delete", "disk"],
            &["area", "export", "disk", "file"],
        ] {
            world.run(words).refuses(1, &["disk: ", text]);
        }
        let doctor = world.run(&["doctor", "disk"]);
        assert_eq!(doctor.code, Some(1));
        assert!(doctor.out.contains(text), "{doctor:#?}");
        assert!(
            fs::read(world.path("disk")).unwrap() == bytes,
            "{text}: the disk was written"
        );
        assert!(!world.path("file").exists());
    }
}
