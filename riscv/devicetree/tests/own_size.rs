//! Trees whose `reg` says less of a controller of machine mode's than there is.

use poorwill_devicetree::{DescriptionError, Machine};
use poorwill_memory::PhysRange;

/// The tree of that name, with more of it in the source form.
mod dtc;

fn read(name: &str, more: &str) -> Result<Machine, DescriptionError> {
    let path = [env!("CARGO_MANIFEST_DIR"), "tests/machines", name].join("/");
    let source = std::fs::read_to_string(path).unwrap() + more;
    Machine::read(&dtc::compile(&source))
}

/// With another `reg` for a node on the bus.
fn with_reg(name: &str, node: &str, reg: &str) -> Machine {
    let more = format!("/ {{ soc {{ {node} {{ reg = <{reg}>; }}; }}; }};");
    read(name, &more).unwrap_or_else(|error| panic!("{name}, {more}: {error}"))
}

fn is_closed(machine: &Machine, start: u64, end: u64) -> bool {
    let mut at = start;
    while let Some(range) = machine.machine_only.iter().find(|range| range.contains(at)) {
        at = range.end;
    }
    at >= end
}

/// A machine, a node, its `reg`, and what is closed.
type Case = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(u64, u64)],
);

const CLOSED: &[Case] = &[
    // K3's, one without a length, and one that is longer than the controller.
    (
        "virt-plic.dts",
        "clint@2000000",
        "0 0x2000000 0 0x4000",
        &[(0x200_0000, 0x200_c000)],
    ),
    (
        "virt-plic.dts",
        "clint@2000000",
        "0 0x2000000 0 0",
        &[(0x200_0000, 0x200_c000)],
    ),
    (
        "virt-plic.dts",
        "clint@2000000",
        "0 0x2000000 0 0x20000",
        &[(0x200_0000, 0x202_0000)],
    ),
    (
        "virt-aclint.dts",
        "mswi@2000000",
        "0 0x2000000 0 8",
        &[(0x200_0000, 0x200_4000)],
    ),
    (
        "virt-aclint.dts",
        "mtimer@2004000",
        "0 0x200bff8 0 0 0 0x2004000 0 0x10",
        &[(0x200_4000, 0x200_c000)],
    ),
    // With interrupt files the domain has none of its own; without, one for each hart.
    (
        "virt-aia.dts",
        "interrupt-controller@c000000",
        "0 0xc000000 0 0x1000",
        &[(0xc00_0000, 0xc00_4000)],
    ),
    (
        "virt-aplic.dts",
        "interrupt-controller@c000000",
        "0 0xc000000 0 0x4000",
        &[(0xc00_0000, 0xc00_4040)],
    ),
    (
        "virt-aia.dts",
        "interrupt-controller@24000000",
        "0 0x24000000 0 0x1000",
        &[(0x2400_0000, 0x2400_2000)],
    ),
    (
        "virt-sockets.dts",
        "interrupt-controller@24000000",
        "0 0x24000000 0 0x1000 0 0x25000000 0 0x1000",
        &[(0x2400_0000, 0x2400_2000), (0x2500_0000, 0x2500_2000)],
    ),
];

#[test]
fn a_controllers_own_size_closes_it() {
    for (name, node, reg, closed) in CLOSED {
        let machine = with_reg(name, node, reg);
        for (start, end) in *closed {
            assert!(
                is_closed(&machine, *start, *end),
                "{name}, {node} with {reg}: {:x?}",
                machine.machine_only
            );
        }
        let as_it_was = read(name, "").unwrap();
        assert_eq!(machine.harts, as_it_was.harts, "{name}, {node} with {reg}");
        assert_eq!(machine.mtime, as_it_was.mtime, "{name}, {node} with {reg}");
    }
}

/// `status` says that nobody drives it, not that it is not there.
#[test]
fn a_controller_that_is_disabled_is_closed_and_not_used() {
    // Another timer, so that the machine has one.
    let timer = "timer@3000000 { compatible = \"riscv,aclint-mtimer\";
        reg = <0 0x300bff8 0 8 0 0x3004000 0 0x7ff8>; };";
    for (name, node, closed) in [
        ("virt-plic.dts", "clint@2000000", (0x200_0000, 0x200_c000)),
        ("virt-aclint.dts", "mswi@2000000", (0x200_0000, 0x200_4000)),
        (
            "virt-aclint.dts",
            "mtimer@2004000",
            (0x200_4000, 0x200_c000),
        ),
        (
            "virt-aia.dts",
            "interrupt-controller@c000000",
            (0xc00_0000, 0xc00_4000),
        ),
        (
            "virt-aia.dts",
            "interrupt-controller@24000000",
            (0x2400_0000, 0x2400_2000),
        ),
    ] {
        let off = format!("{node} {{ status = \"disabled\"; }};");
        for more in [
            format!("/ {{ soc {{ {off} {timer} }}; }};"),
            // So is one on a bus that is disabled.
            format!("/ {{ soc {{ status = \"disabled\"; }}; {timer} }};"),
        ] {
            let machine =
                read(name, &more).unwrap_or_else(|error| panic!("{name}, {more}: {error}"));
            let (start, end) = closed;
            let list = &machine.machine_only;
            assert!(is_closed(&machine, start, end), "{name}, {more}: {list:x?}");
            let hart = &machine.harts[0];
            let used = [
                hart.msip,
                hart.mtimecmp,
                hart.machine_imsic.map(|file| file.address),
            ];
            let is_within = |address: &u64| (start..end).contains(address);
            assert!(
                !used.iter().flatten().any(is_within),
                "{name}, {more}: {used:x?}"
            );
            assert!(!machine.mtime.iter().any(is_within), "{name}, {more}");
        }
    }
    let more = "/ { fw-cfg@10100000 { status = \"disabled\"; }; };";
    let machine = read("virt-plic.dts", more).unwrap();
    assert!(machine.fw_cfg.is_empty() && is_closed(&machine, 0x1010_0000, 0x1010_0018));
    // The OS's own are not machine mode's.
    for node in [
        "interrupt-controller@d000000",
        "interrupt-controller@28000000",
    ] {
        let more = format!("/ {{ soc {{ {node} {{ status = \"disabled\"; }}; }}; }};");
        let (off, on) = (
            read("virt-aia.dts", &more).unwrap(),
            read("virt-aia.dts", "").unwrap(),
        );
        assert_eq!(off.machine_only, on.machine_only, "{node}");
    }
}

/// What machine mode cannot use for want of a property is not the OS's either.
#[test]
fn a_controller_that_says_too_little_is_closed() {
    for (name, change, closed) in [
        (
            "virt-aia.dts",
            "interrupt-controller@c000000 { /delete-property/ riscv,num-sources; };",
            0xc00_0000,
        ),
        (
            "virt-aplic.dts",
            "interrupt-controller@c000000 { /delete-property/ riscv,children; };",
            0xc00_0000,
        ),
        (
            "virt-aia.dts",
            "interrupt-controller@24000000 { /delete-property/ riscv,num-ids; };",
            0x2400_0000,
        ),
        (
            "virt-plic.dts",
            "mtimer@3000000 { compatible = \"riscv,aclint-mtimer\"; reg = <0 0x3000000 0 0x1000>; };",
            0x300_0000,
        ),
    ] {
        let machine = read(name, &format!("/ {{ soc {{ {change} }}; }};")).unwrap();
        assert!(is_closed(&machine, closed, closed + 0x2000), "{change}");
        let os = machine.interrupts.os_aplics.iter();
        assert!(os.clone().all(|aplic| aplic.base != closed), "{change}");
    }
}

/// What starts a transfer that no PMP stops is mediated, whatever the tree says.
#[test]
fn the_configuration_device_has_its_last_register() {
    for length in [0, 0x10, 0x18, 0x1000] {
        let more = format!("/ {{ fw-cfg@10100000 {{ reg = <0 0x10100000 0 {length}>; }}; }};");
        let machine = read("virt-plic.dts", &more).unwrap();
        let whole = PhysRange::new(0x1010_0000, length.max(0x18));
        assert_eq!(machine.fw_cfg[..], [whole]);
    }
}

/// What is closed beyond a `reg` that is right is nothing.
#[test]
fn trees_that_are_right_are_read_as_they_are() {
    let plic = read("virt-plic.dts", "").unwrap();
    assert_eq!(
        plic.machine_only[..],
        [PhysRange::new(0x200_0000, 0x1_0000)]
    );
    let sockets = read("virt-sockets.dts", "").unwrap();
    let last = sockets.harts.last().unwrap();
    assert_eq!(last.machine_imsic.unwrap().address, 0x2500_1000);
}

/// A node within a controller of machine mode's: the tree, and whether it
/// is refused.
const WITHIN: &[(&str, bool)] = &[
    ("soc { uart@2004000 { reg = <0 0x2004000 0 0x100>; }; };", true),
    ("soc { uart@200bfff { reg = <0 0x200bfff 0 1>; }; };", true),
    ("uart@2003000 { reg = <0 0x2003000 0 0x1001>; };", true),
    ("two@1000 { reg = <0 0x1000 0 0x100>, <0 0x2005000 0 0x1000>; };", true),
    ("memory@2008000 { device_type = \"memory\"; reg = <0 0x2008000 0 0x1000>; };", true),
    // On a bus of a bus, and on one with other addresses.
    (
        "soc { bus { compatible = \"simple-bus\"; #address-cells = <2>; #size-cells = <2>; ranges;
            uart@2004000 { reg = <0 0x2004000 0 0x100>; }; }; };",
        true,
    ),
    (
        "bus { #address-cells = <1>; #size-cells = <1>; ranges = <0x10000 0 0x2000000 0x10000>;
            uart@14000 { reg = <0x14000 0x100>; }; };",
        true,
    ),
    (
        "bus { #address-cells = <1>; #size-cells = <1>; ranges = <0x2000000 0 0x70000000 0x10000>;
            uart@2004000 { reg = <0x2004000 0x100>; }; };",
        false,
    ),
    // Beside it; not in use; machine mode's own; and what is no address of the CPU's.
    ("soc { uart@200c000 { reg = <0 0x200c000 0 0x100>; }; };", false),
    ("soc { uart@1fff000 { reg = <0 0x1fff000 0 0x1000>; }; };", false),
    (
        "soc { uart@2004000 { status = \"disabled\"; reg = <0 0x2004000 0 0x100>; }; };",
        false,
    ),
    (
        "soc { mtimer@2004000 { compatible = \"riscv,aclint-mtimer\";
            reg = <0 0x200bff8 0 8 0 0x2004000 0 0x7ff8>; }; };",
        false,
    ),
    (
        "flash@20000000 { partitions { compatible = \"fixed-partitions\";
            #address-cells = <1>; #size-cells = <1>; fs@2004000 { reg = <0x2004000 0x1000>; }; }; };",
        false,
    ),
    (
        "i2c@1000 { reg = <0 0x1000 0 0x100>; #address-cells = <1>; #size-cells = <0>;
            clock@2004000 { reg = <0x2004000>; }; };",
        false,
    ),
];

#[test]
fn nothing_else_lies_within_a_controller() {
    const SHORT: &str = "soc { clint@2000000 { reg = <0 0x2000000 0 0x4000>; }; };";
    for (node, is_refused) in WITHIN {
        let found = read("virt-plic.dts", &format!("/ {{ {SHORT} {node} }};"));
        match (found, is_refused) {
            (Ok(machine), false) => assert!(is_closed(&machine, 0x200_0000, 0x200_c000)),
            (Err(DescriptionError::Intruder(found)), true) => {
                assert_eq!(&found.controller, "clint@2000000");
                assert!(node.contains(found.node.as_str()), "{}", found.node);
                assert_eq!(found.end, 0x200_c000);
            }
            (found, _) => panic!("{node}: {:?}", found.err()),
        }
    }
}

#[test]
fn each_controller_refuses_what_lies_within_it() {
    for (name, short, within, controller) in [
        (
            "virt-aclint.dts",
            "soc { mswi@2000000 { reg = <0 0x2000000 0 0x1000>; }; };",
            0x200_3000_u64,
            "mswi@2000000",
        ),
        (
            "virt-aclint.dts",
            "soc { mtimer@2004000 { reg = <0 0x200bff8 0 8 0 0x2004000 0 0x10>; }; };",
            0x200_a000,
            "mtimer@2004000",
        ),
        (
            "virt-aplic.dts",
            "soc { interrupt-controller@c000000 { reg = <0 0xc000000 0 0x1000>; }; };",
            0xc00_4000,
            "interrupt-controller@c000000",
        ),
        (
            "virt-aia.dts",
            "soc { interrupt-controller@24000000 { reg = <0 0x24000000 0 0x1000>; }; };",
            0x2400_1000,
            "interrupt-controller@24000000",
        ),
        // The context by which machine mode takes the power-fail line, and what enables
        // sources for it.
        (
            "virt-plic.dts",
            "soc { plic@c000000 { reg = <0 0xc000000 0 0x1000>; }; };",
            0xc20_3000,
            "plic@c000000",
        ),
        (
            "virt-plic.dts",
            "fw-cfg@10100000 { reg = <0 0x10100000 0 0x10>; };",
            0x1010_0010,
            "fw-cfg@10100000",
        ),
    ] {
        let node = format!("device@{within:x} {{ reg = <0 {within:#x} 0 4>; }};");
        let error = read(name, &format!("/ {{ {short} {node} }};")).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(&format!("device@{within:x}")) && text.contains(controller),
            "{text}"
        );
    }
}
