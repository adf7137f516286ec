//! `poorwill key` on flash files.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};

use common::{MIB, World, names, open_vault};
use poorwill_vault::{KEY_BYTES, RollbackCounter};
use rustix::fs::{FlockOperation, fcntl_lock};
use serde_json::Value;

fn create(world: &World) {
    let made = world.run(&["key", "create", "flash"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
}

fn shown(world: &World) -> Value {
    let outcome = world.run(&["key", "show", "flash", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    serde_json::from_str(&outcome.out).unwrap()
}

fn key_in(world: &World) -> [u8; KEY_BYTES] {
    *open_vault(&world.path("flash")).key().unwrap().bytes()
}

fn holds(world: &World, bytes: &[u8]) -> bool {
    let flash = fs::read(world.path("flash")).unwrap();
    flash.windows(bytes.len()).any(|window| window == bytes)
}

/// Lets the machine go to sleep, as far as the flash knows.
fn arm(world: &World) -> u64 {
    let mut vault = open_vault(&world.path("flash"));
    let generation = vault.reserve(0).unwrap();
    vault.arm(generation).unwrap();
    generation
}

fn blank(world: &World) {
    fs::write(world.path("flash"), vec![0xff; 32 << 20]).unwrap();
}

#[test]
fn a_new_flash_has_a_key_of_its_own() {
    let world = World::empty();
    create(&world);
    let file = fs::metadata(world.path("flash")).unwrap();
    assert_eq!(file.len(), 32 * MIB);
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let report = shown(&world);
    assert_eq!(report["vault"], true);
    assert_eq!(report["key"], "present");
    assert_eq!(report["sleeps"], 0);
    assert_eq!(report["armed"], Value::Null);
    let id = report["key_id"].as_str().unwrap();
    assert_eq!(id.len(), 32, "{id}");
    // The key itself is nowhere in what is printed.
    let key: String = key_in(&world).iter().map(|b| format!("{b:02x}")).collect();
    let text = world.run(&["key", "flash"]);
    assert!(
        text.out.contains(&format!("key {id}")) && text.out.contains("no image may wake"),
        "{text:#?}"
    );
    assert!(!text.out.contains(&key[..16]) && !report.to_string().contains(&key[..16]));
    fs::remove_file(world.path("flash")).unwrap();
    create(&world);
    assert_ne!(shown(&world)["key_id"].as_str(), Some(id), "two equal keys");
}

#[test]
fn showing_writes_nothing() {
    let world = World::empty();
    blank(&world);
    let outcome = world.run(&["key", "flash"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.out.starts_with("blank"), "{outcome:#?}");
    let report = shown(&world);
    assert_eq!(
        (&report["vault"], &report["key"]),
        (&false.into(), &"missing".into())
    );
    assert!(
        fs::read(world.path("flash"))
            .unwrap()
            .iter()
            .all(|byte| *byte == 0xff)
    );
}

#[test]
fn a_rotated_key_is_nowhere_in_the_file() {
    let world = World::empty();
    create(&world);
    // A life of its own first: with sleeps, and with a key that was moved.
    let old = key_in(&world);
    let before = shown(&world)["key_id"].clone();
    for _ in 0..3 {
        let generation = arm(&world);
        let mut vault = open_vault(&world.path("flash"));
        assert_eq!(vault.armed(), Some(generation));
        vault.disarm().unwrap();
    }
    assert!(holds(&world, &old));
    let outcome = world.run(&["key", "rotate", "flash"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(outcome.out.contains("are lost"), "{outcome:#?}");
    assert!(!holds(&world, &old[..8]), "some of the old key is left");
    let report = shown(&world);
    assert_ne!(report["key_id"], before);
    assert_eq!(report["sleeps"], 3, "numbers are never given again");
    assert!(holds(&world, &key_in(&world)));
}

#[test]
fn an_erased_key_is_nowhere_in_the_file() {
    let world = World::empty();
    create(&world);
    let old = key_in(&world);
    let outcome = world.run(&["key", "erase", "flash"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    assert!(!holds(&world, &old[..8]), "some of the old key is left");
    let report = shown(&world);
    assert_eq!(
        (&report["key"], &report["key_id"]),
        (&"erased".into(), &Value::Null)
    );
    // Again does no harm, and a new key may come.
    assert_eq!(world.run(&["key", "erase", "flash"]).code, Some(0));
    assert_eq!(world.run(&["key", "rotate", "flash"]).code, Some(0));
    assert_eq!(shown(&world)["key"], "present");
}

#[test]
fn a_sleeping_machines_key_is_kept() {
    let world = World::empty();
    create(&world);
    let generation = arm(&world);
    let before = fs::read(world.path("flash")).unwrap();
    let named = format!("generation {generation}");
    for action in ["rotate", "erase"] {
        let refused = world.run(&["key", action, "flash"]);
        refused.refuses(1, &["sleeps", &named, "of generation 1 is lost", "--yes"]);
    }
    assert!(
        before == fs::read(world.path("flash")).unwrap(),
        "it was written"
    );
    let text = world.run(&["key", "flash"]).out;
    assert!(text.contains(&format!("{named} may wake")), "{text}");
    let report = shown(&world);
    assert_eq!(report["armed"], generation);
    let outcome = world.run(&["key", "rotate", "flash", "--yes", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let after: Value = serde_json::from_str(&outcome.out).unwrap();
    assert_eq!(
        (&after["armed"], &after["sleeps"]),
        (&Value::Null, &generation.into())
    );
    assert_ne!(after["key_id"], report["key_id"]);
}

#[test]
fn a_key_for_a_blank_flash() {
    let world = World::empty();
    blank(&world);
    world
        .run(&["key", "erase", "flash"])
        .refuses(1, &["no key to erase"]);
    assert_eq!(shown(&world)["vault"], false, "erasing nothing wrote");
    assert_eq!(world.run(&["key", "rotate", "flash"]).code, Some(0));
    assert_eq!(shown(&world)["key"], "present");
}

#[test]
fn what_is_no_flash_is_left_alone() {
    let world = World::empty();
    for bytes in [0, 1, (32 << 20) - 1, (32 << 20) + 1, 64 << 20] {
        File::create(world.path("flash"))
            .unwrap()
            .set_len(bytes)
            .unwrap();
        let number = bytes.to_string();
        for action in ["show", "rotate", "erase"] {
            world
                .run(&["key", action, "flash"])
                .refuses(1, &["flash has ", &number, "33554432", "key create"]);
        }
    }
    fs::create_dir(world.path("folder")).unwrap();
    world
        .run(&["key", "folder"])
        .refuses(1, &["not a plain file", "key create"]);
    world
        .run(&["key", "absent"])
        .refuses(1, &["cannot read flash absent", "No such file"]);
}

#[test]
fn foreign_data_and_flash_that_forgets_are_left_alone() {
    let world = World::empty();
    let cases = [
        (b"somebody's boot loader".as_slice(), "not a vault"),
        (&[0; 1 << 20], "all zeros"),
    ];
    for (data, words) in cases {
        blank(&world);
        let file = File::options()
            .write(true)
            .open(world.path("flash"))
            .unwrap();
        file.write_all_at(data, 31 << 20).unwrap();
        let before = fs::read(world.path("flash")).unwrap();
        for action in ["show", "rotate", "erase"] {
            let refused = world.run(&["key", action, "flash"]);
            refused.refuses(1, &["flash flash", words, "0xff"]);
        }
        assert!(
            before == fs::read(world.path("flash")).unwrap(),
            "it was written"
        );
    }
    // Data elsewhere in the flash is none of ours, and stays.
    blank(&world);
    let file = File::options()
        .write(true)
        .open(world.path("flash"))
        .unwrap();
    file.write_all_at(b"variables", 0).unwrap();
    assert_eq!(world.run(&["key", "rotate", "flash"]).code, Some(0));
    assert!(holds(&world, b"variables"));
}

#[test]
fn a_flash_in_use() {
    let world = World::with_qemu("exit 0");
    create(&world);
    let before = fs::read(world.path("flash")).unwrap();
    let holder = File::options()
        .read(true)
        .write(true)
        .open(world.path("flash"))
        .unwrap();
    fcntl_lock(&holder, FlockOperation::LockShared).unwrap();
    let process = format!("process {}", std::process::id());
    for action in ["rotate", "erase"] {
        world.run(&["key", action, "flash"]).refuses(
            1,
            &[
                "flash flash is in use by",
                &process,
                "end that process first",
            ],
        );
    }
    world
        .run(&["run", "--flash", "flash"])
        .refuses(1, &["flash flash is in use by", &process]);
    // To look is no harm, and it is said that this may change.
    let looked_at = world.run(&["key", "flash"]);
    assert_eq!(looked_at.code, Some(0), "{looked_at:#?}");
    assert!(looked_at.out.contains(&process), "{looked_at:#?}");
    assert!(
        before == fs::read(world.path("flash")).unwrap(),
        "it was written"
    );
    drop(holder);
    assert_eq!(world.run(&["key", "rotate", "flash"]).code, Some(0));
}

#[test]
fn nothing_is_overwritten() {
    let world = World::empty();
    fs::write(world.path("flash"), "precious").unwrap();
    world
        .run(&["key", "create", "flash"])
        .refuses(1, &["flash exists", "key rotate"]);
    assert_eq!(fs::read(world.path("flash")).unwrap(), b"precious");
    world
        .run(&["key", "create", "no/flash"])
        .refuses(1, &["cannot write no/flash", "No such file"]);
    assert_eq!(names(world.folder.path()), ["flash"]);
}

#[test]
fn wrong_usage() {
    let world = World::empty();
    for arguments in [
        ["key"].as_slice(),
        &["key", "show"],
        &["key", "create"],
        &["key", "rotate"],
        &["key", "erase", "a", "b"],
    ] {
        world.run(arguments).refuses(2, &["--help"]);
    }
}

#[test]
fn run_makes_the_flash_and_hands_it_to_qemu() {
    let world = World::with_qemu("printf '%s\\n' \"$@\" > arguments");
    let made = world.run(&["disk", "create", "disk", "--area", "8M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    let arguments = ["run", "--disk", "disk", "--flash", "machine,1.flash"];
    let outcome = world.run(&arguments);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let flash = world.path("machine,1.flash");
    assert_eq!(fs::metadata(&flash).unwrap().len(), 32 * MIB);
    let given = fs::read_to_string(world.path("arguments")).unwrap();
    assert!(
        given.contains("\"machine,1.flash\"") && given.contains("pflash1=flash"),
        "{given}"
    );
    // What is there is used as it is; what is no flash, is not.
    let id = world.run(&["key", "rotate", "machine,1.flash"]);
    assert_eq!(id.code, Some(0), "{id:#?}");
    let before = fs::read(&flash).unwrap();
    assert_eq!(world.run(&arguments).code, Some(0));
    assert!(before == fs::read(&flash).unwrap());
    fs::write(&flash, "short").unwrap();
    fs::remove_file(world.path("arguments")).unwrap();
    world.run(&arguments).refuses(1, &["5 bytes", "33554432"]);
    assert!(!world.path("arguments").exists(), "QEMU was started");
}
