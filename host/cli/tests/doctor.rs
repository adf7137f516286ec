//! `poorwill doctor --tree` on device trees.

mod common;

use std::fs;
use std::process::Command;

use common::World;
use poorwill_manifest::{CutRecord, DataRange, Formats, MemoryLayout, Parts};
use poorwill_memory::PhysRange;
use serde_json::Value;

const PLIC: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-plic.dts");
const AIA: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-aia.dts");
const SIFIVE_U: &str = include_str!("../../../riscv/devicetree/tests/machines/sifive-u.dts");
const DOMAINS: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-domains.dts");

/// A firmware with a first range of 1.75 MiB, linked for this address.
fn firmware(linked_for: u64) -> Vec<u8> {
    let parts = Parts {
        release: [0, 1, 0],
        formats: Formats::BUILT,
        layout: MemoryLayout {
            loaded: PhysRange::new(linked_for, 1792 << 10),
            placement_rule: 1,
            identity_rule: 1,
            data: DataRange {
                fixed_pages: 100,
                hart_pages: 10,
                pages_per_page: [0; 4],
            },
            cut: CutRecord::default(),
            executor_pages: 0,
        },
        sections: &[],
    };
    parts.encode().to_vec()
}

/// A world with a firmware and the tree `board.dtb`.
fn with_tree(source: &str) -> World {
    let world = World::empty();
    fs::write(world.path("firmware"), firmware(0x8000_0000)).unwrap();
    fs::write(world.path("board.dts"), source).unwrap();
    let [source, blob] = ["board.dts", "board.dtb"].map(|name| world.path(name));
    let mut dtc = Command::new("dtc");
    dtc.args(["-q", "-q", "-f", "-I", "dts", "-O", "dtb", "-o"])
        .args([blob, source]);
    assert!(dtc.status().unwrap().success());
    world
}

/// A tree in which some text is replaced.
fn changed(source: &str, from: &str, to: &str) -> World {
    assert!(source.contains(from), "{from}");
    with_tree(&source.replace(from, to))
}

fn json(world: &World, code: i32) -> Value {
    let outcome = world.run(&["doctor", "--tree", "board.dtb", "--json"]);
    assert_eq!(outcome.code, Some(code), "{outcome:#?}");
    serde_json::from_str(&outcome.out).unwrap()
}

/// The finding with this name that is not good.
fn ill(world: &World, what: &str, code: i32) -> (String, String) {
    let value = json(world, code);
    let findings = value["findings"].as_array().unwrap();
    let mut ill =
        (findings.iter()).filter(|finding| finding["what"] == what && finding["health"] != "ok");
    let ill = ill.next().unwrap_or_else(|| panic!("{what}: {value:#}"));
    let text = |name: &str| ill[name].as_str().unwrap().to_owned();
    (text("detail"), text("cure"))
}

/// The text is the golden file's. `POORWILL_BLESS=1` writes that.
fn is_golden(source: &str, name: &str) {
    let world = with_tree(source);
    let outcome = world.run(&["doctor", "--tree", "board.dtb"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let folder = world.folder.path().display().to_string();
    let text = outcome.out.replace(&folder, "WORLD");
    let file = format!("{}/tests/doctor/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var("POORWILL_BLESS").is_ok_and(|set| set == "1") {
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&file).unwrap(), "{file}");
}

#[test]
fn virt_is_described() {
    is_golden(PLIC, "virt-plic.txt");
    is_golden(AIA, "virt-aia.txt");
}

#[test]
fn sifive_u_is_described() {
    is_golden(SIFIVE_U, "sifive-u.txt");
}

#[test]
fn the_weak_core_is_named() {
    const ON: &str = "/ { chosen { poorwill,executor = \"on\"; }; };";
    let world = with_tree(&format!("{SIFIVE_U}{ON}"));
    let outcome = world.run(&["doctor", "--tree", "board.dtb"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let text = outcome.out;
    assert!(text.contains("hart 0 is the weak core"), "{text}");
    assert!(!text.contains("parked hart"), "{text}");
    let (detail, cure) = ill(&with_tree(&format!("{PLIC}{ON}")), "executor", 0);
    assert!(detail.starts_with("none: no enabled core"), "{detail}");
    assert!(cure.contains("remove `poorwill,executor`"), "{cure}");
}

#[test]
fn json_has_addresses_and_registers() {
    let value = json(&with_tree(PLIC), 0);
    assert_eq!(value["starts"], true);
    assert_eq!(value["console"]["address"], 0x1000_0000);
    assert_eq!(value["power_off"]["value"], 0x5555);
    assert_eq!(value["harts"][1]["state"], "usable");
    let fences = &value["fences"];
    assert_eq!(fences["firmware"]["end"], 0x801c_0000_u32);
    let plans = fences["divided"]["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 4, "16 and 8 entries, with and without a vault");
    for plan in plans {
        let registers = plan["registers"].as_array().unwrap();
        assert_eq!(plan["used"], registers.len());
        assert!(registers[0]["config"].is_u64() && registers[0]["address"].is_u64());
    }
    let value = json(&with_tree(SIFIVE_U), 0);
    assert_eq!(value["harts"][0]["state"], "no-mmu");
    assert_eq!(value["harts"][0]["suits_weak_core"], true);
    assert_eq!(value["reset"]["kind"], "gpio");
    assert_eq!(value["power_off"], Value::Null);
    assert_eq!(value["sleeps"][0]["allowed"], "yes");
    assert_eq!(value["sleeps"][1]["allowed"], "no");
}

#[test]
fn missing_parts_are_named_with_a_remedy() {
    for (from, to, what, detail, cure) in [
        (
            "device_type = \"memory\"",
            "status = \"disabled\"",
            "memory",
            "no memory",
            "dump the tree that it hands on",
        ),
        (
            "\"sifive,clint0\\0riscv,clint0\"",
            "\"vendor,clint\"",
            "time",
            "clint@2000000 (vendor,clint)",
            "known are riscv,clint0",
        ),
        (
            "timebase-frequency",
            "other-frequency",
            "time",
            "timebase-frequency",
            "add `timebase-frequency`",
        ),
        (
            "mmu-type",
            "other-type",
            "harts",
            "no hart with an MMU",
            "`mmu-type`",
        ),
    ] {
        let world = changed(PLIC, from, to);
        let found = ill(&world, what, 1);
        assert!(found.0.contains(detail), "{found:?}");
        assert!(found.1.contains(cure), "{found:?}");
    }
    for (from, to, what, detail) in [
        (
            "\"ns16550a\"",
            "\"vendor,uart\"",
            "console",
            "no driver for",
        ),
        ("\"syscon-poweroff\"", "\"other\"", "power-off", "none"),
        ("\"syscon-reboot\"", "\"other\"", "reset", "none"),
        (
            "\"pci-host-ecam-generic\"",
            "\"vendor,pcie\"",
            "PCIe",
            "pci@30000000 (vendor,pcie)",
        ),
        (
            "\"google,goldfish-rtc\"",
            "\"vendor,rtc\"",
            "clock",
            "rtc@101000 (vendor,rtc)",
        ),
    ] {
        let found = ill(&changed(PLIC, from, to), what, 0);
        assert!(found.0.contains(detail), "{found:?}");
    }
}

#[test]
fn the_firmware_must_lie_in_memory() {
    let world = with_tree(PLIC);
    fs::write(world.path("firmware"), firmware(0x4000_0000)).unwrap();
    let found = ill(&world, "firmware", 1);
    assert!(found.0.contains("linked for 0x40000000"), "{found:?}");
    assert!(found.1.contains("FIRMWARE_BASE = 0x80000000"), "{found:?}");
    let at = ["--firmware-at", "0x80200000"];
    let outcome = world.run(&[&["doctor", "--tree", "board.dtb"], &at[..]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let closed = "closed          memory 0x80200000 to 0x803c0000";
    assert!(outcome.out.contains(closed), "{outcome:#?}");
}

#[test]
fn domains_are_left_to_their_own_command() {
    let found = ill(&with_tree(DOMAINS), "fences", 0);
    assert!(found.1.contains("poorwill domains check"), "{found:?}");
}

#[test]
fn unusable_files_get_one_line() {
    let world = with_tree(PLIC);
    let whole = fs::read(world.path("board.dtb")).unwrap();
    let mut damaged = whole.clone();
    let at = whole.windows(7).position(|bytes| bytes == b"memory@");
    damaged[at.unwrap() - 4..][..4].fill(0xee);
    for (bytes, words) in [
        (&b""[..], "is empty"),
        (b"/dts-v1/; / { };", "no compiled device tree; compile"),
        (b"\xd0\x0d", "no compiled device tree"),
        (&whole[..whole.len() - 1], "is cut off"),
        (&damaged, "is damaged"),
    ] {
        fs::write(world.path("board.dtb"), bytes).unwrap();
        for more in [&[][..], &["--json"]] {
            let outcome = world.run(&[&["doctor", "--tree", "board.dtb"], more].concat());
            outcome.refuses(1, &["board.dtb: ", words]);
            assert_eq!(outcome.err.lines().count(), 1, "{outcome:#?}");
            assert_eq!(outcome.out, "");
        }
    }
    (world.run(&["doctor", "--tree", "absent.dtb"])).refuses(1, &["absent.dtb"]);
}

#[test]
fn a_hart_may_have_any_name() {
    let value = json(&changed(PLIC, "cpu@1 {", "core@1 {"), 0);
    assert_eq!(value["harts"].as_array().unwrap().len(), 2);
    assert_eq!(value["harts"][1]["state"], "usable");
}

#[test]
fn names_of_a_tree_do_not_command_the_terminal() {
    let world = changed(PLIC, "\"riscv-virtio\"", "\"riscv\\x1b[2J\\nvirtio\"");
    let outcome = world.run(&["doctor", "--tree", "board.dtb"]);
    let line = "ok       board           riscv\\u{1b}[2J\\u{a}virtio";
    assert_eq!(outcome.out.lines().next(), Some(line), "{outcome:#?}");
}

#[test]
fn a_tree_is_read_up_to_its_size() {
    let world = with_tree(PLIC);
    let mut padded = fs::read(world.path("board.dtb")).unwrap();
    padded.resize(padded.len() + 4096, 0);
    fs::write(world.path("board.dtb"), padded).unwrap();
    assert_eq!(json(&world, 0)["starts"], true);
}

#[test]
fn a_board_excludes_this_host() {
    let world = with_tree(PLIC);
    for arguments in [
        &["doctor", "--tree", "board.dtb", "disk"][..],
        &["doctor", "--tree", "board.dtb", "--", "-device", "nvme"],
        &["doctor", "--json"],
        &["doctor", "--firmware-at", "0x80000000"],
    ] {
        world.run(arguments).refuses(2, &["--tree"]);
    }
}
