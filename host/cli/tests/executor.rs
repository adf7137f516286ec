//! `poorwill run` with an executor: by a device tree that asks for one, and by `--weak-core`.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Outcome, World};
use poorwill_devicetree::{Machine, WeakHart};

const PLIC: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-plic.dts");
const AIA: &str = include_str!("../../../riscv/devicetree/tests/machines/virt-aia.dts");
const SIFIVE_U: &str = include_str!("../../../riscv/devicetree/tests/machines/sifive-u.dts");
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

/// A world whose QEMU has the machine of `source`. It leaves its arguments and its tree.
fn world_of(source: &str) -> World {
    let world = World::with_qemu(
        "for word; do case $word in dumpdtb=*)
            exec dtc -q -q -f -I dts -O dtb -o \"${word#*=}\" board.dts; esac; done
        echo \"$@\" > arguments
        while [ $# -gt 1 ]; do [ \"$1\" != -dtb ] || cp \"$2\" started.dtb; shift; done",
    );
    fs::write(world.path("board.dts"), source).unwrap();
    world
}

/// The weak core of the tree that QEMU started with, and the OS's harts.
fn started(world: &World) -> (u64, Vec<u64>) {
    let tree = fs::read(world.path("started.dtb")).unwrap();
    let machine = Machine::read(&tree).unwrap();
    let Some(Ok(WeakHart { hart, .. })) = machine.executor else {
        panic!("{:?}", machine.executor);
    };
    (hart.id, machine.harts.iter().map(|hart| hart.id).collect())
}

/// The tree of `machines/virt-plic.dts`, which has two harts.
const ONE_HART: [&str; 4] = ["run", "--weak-core", "--harts", "1"];

#[test]
fn a_weak_core_is_one_more_hart_of_a_plic_machine() {
    let world = world_of(PLIC);
    let outcome = world.run(&[ONE_HART.as_slice(), &["--tiny"]].concat());
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let arguments = fs::read_to_string(world.path("arguments")).unwrap();
    for part in ["-machine virt -smp 2 ", "poorwill.skip_modules=nvme"] {
        assert!(arguments.contains(part), "{part}: {arguments}");
    }
    // A sleep on a disk would leave the weak core nothing to do.
    assert!(!arguments.contains("-blockdev"), "{arguments}");
    assert_eq!(started(&world), (1, vec![0]));
    // The tree is gone with the machine.
    let tree = arguments.split_once("-dtb ").unwrap().1.trim();
    assert!(!Path::new(tree).exists(), "{tree}");
}

#[test]
fn the_weak_core_of_sifive_u_is_its_e51() {
    let world = world_of(SIFIVE_U);
    let outcome = world.run(&["run", "--machine", "sifive_u", "--weak-core"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let arguments = fs::read_to_string(world.path("arguments")).unwrap();
    // Two harts of the OS beside it, and none is added.
    assert!(
        arguments.contains("-machine sifive_u -smp 3 "),
        "{arguments}"
    );
    assert_eq!(started(&world), (0, vec![1, 2]));
}

#[test]
fn a_weak_core_may_be_asked_for_with_a_plic_and_a_disk() {
    let world = world_of(PLIC);
    let made = world.run(&["disk", "create", "disk", "--area", "8M"]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    let more = ["--interrupts", "plic", "--kernel", "cache/guest/Image"];
    let all = [ONE_HART.as_slice(), &more, &["--disk", "disk"]].concat();
    let outcome = world.run(&all);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    let arguments = fs::read_to_string(world.path("arguments")).unwrap();
    assert!(arguments.contains("virtio-blk-pci"), "{arguments}");
}

#[test]
fn a_weak_core_refuses_what_allows_no_executor() {
    let world = world_of(PLIC);
    let cases: [(&[&str], &str); 7] = [
        (&["--interrupts", "aia"], "the executor needs a PLIC"),
        (&["--harts", "9"], "at most 8 harts"),
        (&["--", "-dtb", "d"], "-dtb cannot be used"),
        (&["--", "--dtb", "d"], "-dtb cannot be used"),
        (
            &["--", "-cpu", "rv64,pmp=off"],
            "rv64,pmp=off cannot be used with --weak-core: the executor confines translated code by PMP",
        ),
        (&["--domains", "d"], "'--domains <FILE>'"),
        (&["--cut", "--ram", "r"], "'--cut'"),
    ];
    for (arguments, reason) in cases {
        let all = [&["run", "--weak-core"], arguments].concat();
        world
            .run(&all)
            .refuses(2, &["--weak-core", reason, "--help"]);
    }
    for name in ["arguments", "r", "data"] {
        assert!(!world.path(name).exists(), "{name}");
    }
}

#[test]
fn a_machine_that_cannot_have_a_weak_core_does_not_start() {
    let vector =
        "/ { cpus { cpu@0 { riscv,isa-extensions = \"i\", \"m\", \"a\", \"c\", \"v\"; }; }; };";
    let power_fail = "/ { power-fail { compatible = \"poorwill,power-fail\"; }; };";
    let cases = [
        (AIA.to_owned(), "a single PLIC, and no AIA"),
        (format!("{PLIC}\n{vector}"), "hart 0 has vector registers"),
        (format!("{PLIC}\n{power_fail}"), "a power-fail line"),
    ];
    for (source, reason) in cases {
        let world = world_of(&source);
        let outcome = world.run(&[ONE_HART.as_slice(), &["--tiny"]].concat());
        outcome.refuses(1, &["--weak-core", "no executor", reason, "after `--`"]);
        assert!(!world.path("arguments").exists());
    }
}
