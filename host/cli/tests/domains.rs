//! `poorwill domains` on device trees.

mod common;

use std::fs;
use std::process::Command;

use common::World;
use serde_json::Value;

const MACHINE: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-domains.dts");

/// A world with the tree `machine.dtb`, some of which is replaced.
fn with_tree(from: &str, to: &str) -> World {
    let world = World::empty();
    assert!(MACHINE.contains(from), "{from}");
    fs::write(world.path("machine.dts"), MACHINE.replacen(from, to, 1)).unwrap();
    let [source, blob] = ["machine.dts", "machine.dtb"].map(|name| world.path(name));
    let mut dtc = Command::new("dtc");
    dtc.args(["-q", "-q", "-I", "dts", "-O", "dtb", "-o"])
        .args([blob, source]);
    assert!(dtc.status().unwrap().success());
    world
}

fn json(world: &World, arguments: &[&str], code: i32) -> Value {
    let outcome = world.run(&[&["domains"], arguments, &["machine.dtb", "--json"]].concat());
    assert_eq!(outcome.code, Some(code), "{outcome:#?}");
    serde_json::from_str(&outcome.out).unwrap()
}

#[test]
fn a_good_partition_is_shown_and_fenced() {
    let world = with_tree("linux", "linux");
    let text = world.run(&["domains", "show", "machine.dtb"]);
    assert_eq!(text.code, Some(0), "{text:#?}");
    let lines: Vec<_> = text.out.lines().collect();
    assert_eq!(lines[0], "domain critical");
    assert_eq!(lines[1], "    harts        2 3; boot hart 2");
    for line in [
        "    rights       suspend (the master)",
        "    next stage   0x80200000, argument 0x87f00000",
        "    memory       0x80200000 to 0xc0000000 rwx",
        "    registers    0x10000000 to 0x10001000 rw-",
        "    function     00:01.0, a bridge to buses 1 to 1; 0x20: 0x50000000 to 0x60000000",
    ] {
        assert!(lines.contains(&line), "{line}: {text:#?}");
    }
    assert!(!text.out.contains("machine mode"), "{text:#?}");
    let value = json(&world, &["show"], 0);
    assert_eq!(value["domains"][1]["name"], "linux");
    assert_eq!(value["domains"][1]["regions"][0]["base"], 0x8000_0000_u32);
    assert_eq!(value["domains"][0]["ranges"][0]["kind"], "memory32");
    assert_eq!(value["cold_boot_harts"][0], 0);
    let check = world.run(&["domains", "check", "machine.dtb", "--pmp-entries", "16"]);
    assert_eq!(check.code, Some(0), "{check:#?}");
    assert!(
        check
            .out
            .contains("unseen: virtio-platform: virtio functions without"),
        "{check:#?}"
    );
    assert!(
        check.out.contains("can be fenced, as far as the tree says"),
        "{check:#?}"
    );
    assert_eq!(json(&world, &["check"], 0)["fenced"], true);
}

#[test]
fn the_exit_status_tells_what_cannot_be_fenced() {
    let world = with_tree(
        "<&critical_ram 0x3f>,",
        "<&critical_ram 0x3f>, <&linux_uart 0x1b>,",
    );
    let check = world.run(&["domains", "check", "machine.dtb"]);
    assert_eq!(check.code, Some(1), "{check:#?}");
    let words = "overlap: domains critical and linux may both access 0x10000000 to 0x10001000";
    assert!(check.out.contains(words), "{check:#?}");
    let value = json(&world, &["check"], 1);
    assert_eq!(value["findings"][0]["name"], "overlap");
    let few = json(&world, &["check", "--pmp-entries", "3"], 1);
    assert_eq!(few["findings"][1]["name"], "plan");
}

/// The firmware closes its memory within a domain's region, which takes a PMP entry.
#[test]
fn the_firmware_may_lie_in_any_domain() {
    let world = with_tree("linux", "linux");
    let inside = ["check", "--firmware-at", "0xc0100000"];
    assert_eq!(json(&world, &inside, 0)["fenced"], true);
    let few = ["--pmp-entries", "5"];
    for (arguments, reasons) in [
        ([&["check"], &few[..]].concat(), 1),
        ([&inside, &few[..]].concat(), 2),
    ] {
        let value = json(&world, &arguments, 1);
        let findings = value["findings"].as_array().unwrap();
        assert!(findings.iter().all(|finding| finding["name"] == "plan"));
        assert_eq!(findings.len(), reasons, "{value:#}");
    }
}

#[test]
fn refused_trees_are_named() {
    let world = with_tree("order = <21>", "order = <2>");
    for action in ["show", "check"] {
        let outcome = world.run(&["domains", action, "machine.dtb"]);
        outcome.refuses(
            1,
            &["machine.dtb", "firmware: order 2 is not within 3 and 64"],
        );
    }
    let plain = with_tree("opensbi,domain,config", "other,config");
    plain
        .run(&["domains", "check", "machine.dtb"])
        .refuses(1, &["describes no domains", "docs/domains.md"]);
    plain
        .run(&["domains", "check", "absent.dtb"])
        .refuses(1, &["absent.dtb"]);
    plain
        .run(&["domains", "show", "machine.dts"])
        .refuses(1, &["device tree is damaged"]);
    plain
        .run(&["domains", "check", "machine.dtb", "--firmware-at", "8x"])
        .refuses(2, &["0x80000000"]);
}

#[test]
fn machine_modes_functions_are_shown_and_checked() {
    let config = "compatible = \"opensbi,domain,config\";";
    let with = |address: &str| {
        let functions = format!("poorwill,functions = <0x03003010 0 {address} 0 0x4000>;");
        with_tree(config, &format!("{config} {functions}"))
    };
    let world = with("0x44000000");
    let shown = world.run(&["domains", "show", "machine.dtb"]);
    let words = "machine mode\n    function     00:06.0; 0x10: 0x44000000 to 0x44004000\n";
    assert!(shown.out.ends_with(words), "{shown:#?}");
    let value = json(&world, &["show"], 0);
    let own = &value["machine_mode"];
    assert_eq!(own["functions"][0]["function"], "00:06.0");
    assert_eq!(own["ranges"][0]["start"], 0x4400_0000);
    assert_eq!(json(&world, &["check"], 0)["fenced"], true);
    let value = json(&with("0x50100000"), &["check"], 1);
    let names = value["findings"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|finding| &finding["name"]).collect();
    assert_eq!(names, ["foreign-range", "shared-range"]);
}
