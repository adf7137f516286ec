//! The core on which machine mode runs lent harts.

use poorwill_devicetree::{Machine, NoExecutor, Without};

mod dtc;

const ON: &str = "/ { chosen { poorwill,executor = \"on\"; }; };";

/// One of the two cores has no MMU.
const WEAK: &str = r#"/ { cpus { cpu@1 { mmu-type = "riscv,none"; }; }; };"#;

fn machine(name: &str, more: &[&str]) -> Machine {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/machines", name].join("/");
    let source = std::fs::read_to_string(path).unwrap() + &more.concat();
    Machine::read(&dtc::compile(&source)).unwrap()
}

fn refusal(name: &str, more: &[&str]) -> NoExecutor {
    machine(name, more).executor.unwrap().unwrap_err()
}

#[test]
fn a_core_without_an_mmu_runs_lent_harts() {
    let machine = machine("virt-plic.dts", &[ON, WEAK]);
    let weak = machine.executor.unwrap().unwrap();
    assert_eq!(weak.hart.id, 1);
    assert_eq!(weak.hart.msip, Some(0x200_0004));
    assert_eq!(weak.hart.mtimecmp, Some(0x200_4008));
    assert_eq!(weak.context, 2);
    let harts: Vec<_> = machine.harts.iter().map(|hart| hart.id).collect();
    assert_eq!(harts, [0]);
    assert_eq!(machine.harts[0].zero_block, Some(64));
}

#[test]
fn the_monitor_core_of_a_board_runs_lent_harts() {
    let board = machine("sifive-u.dts", &[ON]);
    let weak = board.executor.unwrap().unwrap();
    assert_eq!(weak.hart.id, 0);
    assert_eq!(weak.hart.msip, Some(0x200_0000));
    assert_eq!(weak.hart.mtimecmp, Some(0x200_4000));
    // Its only context comes before two of each other hart.
    assert_eq!(weak.context, 0);
    let harts: Vec<_> = board.harts.iter().map(|hart| hart.id).collect();
    assert_eq!(harts, [1, 2]);
    assert_eq!(board.interrupts.plics[0].contexts[..], [2, 4]);
    assert_eq!(machine("sifive-u.dts", &[]).executor, None);
}

#[test]
fn without_the_wish_there_is_none() {
    assert_eq!(machine("virt-plic.dts", &[WEAK]).executor, None);
    let off = "/ { chosen { poorwill,executor = \"off\"; }; };";
    assert_eq!(machine("virt-plic.dts", &[off, WEAK]).executor, None);
}

#[test]
fn parts_of_the_translation_are_left_out() {
    let without = |words: &str| {
        let more = format!("/ {{ chosen {{ poorwill,executor-without = {words}; }}; }};");
        let machine = machine("virt-plic.dts", &[ON, WEAK, &more]);
        machine.executor.unwrap().map(|weak| weak.without)
    };
    let expected = Without {
        counts: true,
        sites: true,
        blocks: false,
    };
    assert_eq!(without(r#""counts", "sites""#), Ok(expected));
    assert!(without(r#""blocks""#).unwrap().blocks);
    let plain = machine("virt-plic.dts", &[ON, WEAK]).executor.unwrap();
    assert_eq!(plain.unwrap().without, Without::default());
    assert_eq!(without(r#""sites", "site""#), Err(NoExecutor::Without));
    assert_eq!(without("<0>"), Err(NoExecutor::Without));
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let plic = "virt-plic.dts";
    let unknown = "/ { chosen { poorwill,executor = \"yes\"; }; };";
    assert_eq!(refusal(plic, &[unknown, WEAK]), NoExecutor::Value);
    assert_eq!(refusal(plic, &[ON]), NoExecutor::NoCore);
    let more: String = (2..10)
        .map(|id| {
            format!(
                r#"/ {{ cpus {{ cpu@{id} {{ device_type = "cpu"; reg = <{id}>; compatible = "riscv";
                mmu-type = "riscv,sv57"; riscv,isa = "rv64imac";
                interrupt-controller {{ #interrupt-cells = <1>; interrupt-controller;
                compatible = "riscv,cpu-intc"; phandle = <{}>; }}; }}; }}; }};"#,
                0x100 + id
            )
        })
        .collect();
    assert_eq!(refusal(plic, &[ON, WEAK, &more]), NoExecutor::Harts(9));
    assert_eq!(
        refusal("virt-aia.dts", &[ON, WEAK]),
        NoExecutor::Controllers
    );
    let no_core = r#"/ { cpus { cpu@1 { status = "disabled"; }; }; };"#;
    assert_eq!(refusal(plic, &[ON, WEAK, no_core]), NoExecutor::NoCore);
    let vector = r#"/ { cpus { cpu@0 { riscv,isa-extensions = "i", "m", "a", "c", "v"; }; }; };"#;
    assert_eq!(refusal(plic, &[ON, WEAK, vector]), NoExecutor::Vector(0));
    let power_fail = r#"/ { power-fail { compatible = "poorwill,power-fail"; }; };"#;
    assert_eq!(
        refusal(plic, &[ON, WEAK, power_fail]),
        NoExecutor::PowerFail
    );
}
