//! `poorwill run` with a device tree that asks for an executor.

mod common;

use std::fs;
use std::process::Command;

use common::{Outcome, World};

const PLIC: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-plic.dts");
const AIA: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-aia.dts");
const ON: &str = "/ { chosen { poorwill,executor = \"on\"; }; };";
const OFF: &str = "/ { chosen { poorwill,executor = \"off\"; }; };";

/// Runs a machine with this tree, and with a kernel that does not exist.
fn run(source: &str, more: &str) -> Outcome {
    let world = World::with_qemu("exit 0");
    fs::write(world.path("board.dts"), format!("{source}\n{more}")).unwrap();
    let [source, blob] = ["board.dts", "board.dtb"].map(|name| world.path(name));
    let mut dtc = Command::new("dtc");
    dtc.args(["-q", "-q", "-f", "-I", "dts", "-O", "dtb", "-o"])
        .args([blob, source]);
    assert!(dtc.status().unwrap().success());
    world.run(&["run", "--kernel", "no-kernel", "--", "-dtb", "board.dtb"])
}

#[test]
fn a_machine_that_cannot_have_one_does_not_start() {
    let remedy = "remove `poorwill,executor`";
    run(AIA, ON).refuses(1, &["board.dtb", "a single PLIC, and no AIA", remedy]);
    run(PLIC, ON).refuses(1, &["board.dtb", "there can be no executor", remedy]);
    let other = ON.replace("\"on\"", "\"yes\"");
    run(PLIC, &other).refuses(1, &["neither \"on\" nor \"off\""]);
}

#[test]
fn another_machine_starts() {
    for more in ["", OFF] {
        run(AIA, more).refuses(1, &["no-kernel"]);
    }
}

#[test]
fn a_tree_that_cannot_be_read_is_named() {
    let world = World::with_qemu("exit 0");
    let run = |world: &World| world.run(&["run", "--", "-dtb", "board.dtb"]);
    run(&world).refuses(1, &["board.dtb", "No such file"]);
    fs::write(world.path("board.dtb"), "no tree").unwrap();
    run(&world).refuses(1, &["board.dtb"]);
}
