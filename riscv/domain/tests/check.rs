//! What cannot be fenced is found, by name.

use poorwill_devicetree::{
    DomainNode, Machine, MemoryRegion, Partition, PciWiring, Permissions, open,
};
use poorwill_domain::KeptRanges;
use poorwill_domain::check::{
    Facts, IntxLine, Unfenced, Unseen, check, entries_of, findings, intx_line, unseen,
};
use poorwill_domain::pmp::{PlanError, Pmp};
use poorwill_memory::PhysRange;
use poorwill_pci::Function;
use proptest::prelude::*;

#[path = "../../devicetree/tests/dtc/mod.rs"]
mod dtc;

use dtc::force as compile;

const MACHINE: &str = include_str!("../../devicetree/tests/machines/virt-domains.dts");
const SOCKETS: &str = include_str!("../../devicetree/tests/machines/virt-sockets.dts");

const FIRMWARE: [PhysRange; 1] = [PhysRange {
    start: 0x8000_0000,
    end: 0x801c_0000,
}];

const PMP: Pmp = Pmp {
    entries: 16,
    granularity_bits: 2,
};

/// The machine's tree with a part replaced, once.
fn changed(from: &str, to: &str) -> String {
    assert!(MACHINE.contains(from), "{from}");
    MACHINE.replacen(from, to, 1)
}

fn with_facts<T>(source: &str, act: impl FnOnce(&Partition, &mut Facts<'_>) -> T) -> T {
    let blob = compile(source);
    let machine = Machine::read(&blob).expect("a machine");
    let partition = Partition::read(&blob).expect("a good one").expect("one");
    let mut facts = Facts {
        machine: &machine,
        tree: open(&blob),
        wiring: open(&blob).and_then(|tree| PciWiring::first(&tree)),
        firmware: &FIRMWARE,
        pmp: Some(PMP),
        sleep_disks: Some(&[]),
    };
    act(&partition, &mut facts)
}

fn all(partition: &Partition, facts: &Facts<'_>) -> Vec<Unfenced> {
    let mut all = Vec::new();
    findings(partition, facts, &mut |finding| all.push(finding));
    all
}

fn told(source: &str) -> Vec<String> {
    let found = with_facts(source, |partition, facts| all(partition, facts));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_partition_has_no_finding() {
    assert_eq!(told(MACHINE), [""; 0]);
    with_facts(MACHINE, |partition, facts| {
        assert_eq!(check(partition, facts), Ok(()));
        let on_the_bus = [
            Unseen::RootPorts,
            Unseen::VirtioPlatform,
            Unseen::InterruptPins,
        ];
        assert_eq!(unseen(partition, facts).collect::<Vec<_>>(), on_the_bus);
        facts.pmp = None;
        facts.sleep_disks = None;
        let all: Vec<_> = unseen(partition, facts).collect();
        assert_eq!(all[3..], [Unseen::Pmp, Unseen::SleepDisks]);
    });
    let open = changed("<0x03010010 0 0x50000000 0 0x4000>", "<0x00000800 0 0 0 0>");
    with_facts(&open, |partition, facts| {
        assert!(unseen(partition, facts).any(|one| one == Unseen::BehindBridges));
    });
}

#[test]
fn buses_in_the_wrong_order_are_no_buses() {
    for range in ["<255 0>", "<255 255>"] {
        let reversed = changed("bus-range = <0 255>", &format!("bus-range = {range}"));
        with_facts(&reversed, |partition, facts| {
            let found = all(partition, facts);
            let is_of_bus = |one: &Unfenced| matches!(one, Unfenced::Configuration { .. });
            assert!(!found.iter().any(is_of_bus), "{range}: {found:?}");
        });
    }
}

/// A device of the machine, before its UART.
const UART: &str = "uart: serial@10000000 {";
/// The end of Linux's regions.
const LINUX: &str = "<&linux_window 0x1b>;";

fn with_device(device: &str, linux: &str) -> String {
    let source = changed(UART, &format!("{device}\n{UART}"));
    source.replace(LINUX, &format!("{linux} {LINUX}"))
}

/// The tree with another region of Linux.
fn with_region(base: u64, order: u32, bits: u32) -> String {
    let node = format!(
        "more: more {{ compatible = \"opensbi,domain,memregion\"; mmio; base = <0 {base:#x}>; order = <{order}>; }};\n"
    );
    let source = changed("linux: linux {", &format!("{node} linux: linux {{"));
    source.replace(LINUX, &format!("<&more {bits:#x}>, {LINUX}"))
}

#[test]
fn addresses_of_two_domains_are_found() {
    let shared = changed(
        "<&critical_ram 0x3f>,",
        "<&critical_ram 0x3f>, <&linux_uart 0x1b>,",
    );
    assert_eq!(
        told(&shared),
        [
            "domains critical and linux may both access 0x10000000 to 0x10001000; give the addresses to one of them"
        ]
    );
    // Neighbours with other permissions are one overlap.
    let memory = with_region(0xc000_0000, 20, 0x1b);
    let [overlap] = &told(&memory)[..] else {
        panic!("one overlap")
    };
    assert!(overlap.contains("0xc0000000 to 0xc0100000"), "{overlap}");
    // A smaller region takes the addresses away again.
    assert_eq!(told(&with_region(0xc000_0000, 20, 0)), [""; 0]);
}

/// Machine mode closes its ranges itself, so a region that covers them is no finding.
#[test]
fn resources_of_machine_mode_are_closed() {
    let is_closed = |source: &str, start: u64| {
        assert_eq!(told(source), [""; 0], "{start:#x}");
        with_facts(source, |partition, facts| {
            let kept = KeptRanges::new(partition, facts.machine, facts.firmware).unwrap();
            let linux = partition.domain_of(0).unwrap();
            assert!(linux.permissions_at(start).opens(), "{start:#x}");
            let page = PhysRange::new(start, 0x1000);
            assert_eq!(kept.first_access(linux, page), None, "{start:#x}");
        });
    };
    for (base, order) in [
        // Timers and doorbells of both sockets, machine mode's APLIC and files, the IOMMU, the
        // first bus.
        (0x200_0000, 16),
        (0x201_0000, 12),
        (0xc00_0000, 15),
        (0x2400_0000, 12),
        (0x301_0000, 12),
        (0x3000_0000, 20),
    ] {
        is_closed(&with_region(base, order, 0x1b), base);
    }
    is_closed(&changed("<&firmware 0x0>,", ""), 0x8000_0000);
    for device in [
        "rtc@101000 { compatible = \"google,goldfish-rtc\"; reg = <0 0x101000 0 0x1000>; };",
        "flash@101000 { compatible = \"cfi-flash\"; bank-width = <4>; reg = <0 0x101000 0 0x1000>; };",
        "fw@101000 { compatible = \"qemu,fw-cfg-mmio\"; reg = <0 0x101000 0 0x18>; };",
        "test: test@101000 { compatible = \"sifive,test0\"; reg = <0 0x101000 0 0x1000>; }; \
         reboot { compatible = \"syscon-reboot\"; regmap = <&test>; offset = <0>; value = <1>; };",
    ] {
        let source = with_region(0x10_1000, 12, 0x1b);
        is_closed(
            &source.replacen(UART, &format!("{device}\n{UART}"), 1),
            0x10_1000,
        );
    }
    // Two domains may both cover them.
    let both = with_region(0x200_0000, 16, 0x1b);
    let both = both.replacen(
        "<&critical_ram 0x3f>,",
        "<&critical_ram 0x3f>, <&more 0x1b>,",
        1,
    );
    is_closed(&both, 0x200_0000);
}

#[test]
fn interrupts_of_other_harts_are_found() {
    let plic = "plic@c100000 { compatible = \"riscv,plic0\"; reg = <0 0xc100000 0 0x1000>; riscv,ndev = <9>; };";
    assert_eq!(
        told(&with_device(plic, "")),
        ["a PLIC at 0xc100000: domains need an APLIC with IMSICs for each"]
    );
    let direct = "msi-parent = <&imsic_s0>;";
    assert_eq!(
        told(&changed(direct, "")),
        ["the APLIC at 0xd000000 sends no messages to an IMSIC node; name its `msi-parent`"]
    );
    // Linux's APLIC forges the critical harts' interrupts.
    let found = told(&changed(direct, "msi-parent = <&imsic_s1>;"));
    assert!(
        found[0].starts_with(
            "domain linux has the APLIC at 0xd000000, which delivers to harts of domain critical"
        ),
        "{found:?}"
    );
    // A hart of the other domain in a node.
    let mixed = changed("<&intc0 9>, <&intc1 9>", "<&intc0 9>, <&intc2 9>");
    let mixed = mixed.replace("<&intc2 9>, <&intc3 9>", "<&intc1 9>, <&intc3 9>");
    let found = told(&mixed);
    assert!(
        found.iter().any(|one| one
            .starts_with("the IMSIC node at 0x28000000 has harts of domains critical and linux")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|one| one.contains("may write the interrupt files of hart 1")),
        "{found:?}"
    );
    // Too many bits for the harts of a node reach the next one.
    let wide = MACHINE.replace(
        "riscv,hart-index-bits = <1>;",
        "riscv,hart-index-bits = <13>;",
    );
    assert!(
        told(&wide)
            .iter()
            .any(|one| one.starts_with("the IMSIC node at 0x28000000 has harts of"))
    );
    let file = told(&with_region(0x2900_1000, 12, 0x1b));
    assert!(
        file.iter()
            .any(|one| one.contains("interrupt files of hart 3 at 0x29001000")),
        "{file:?}"
    );
    let none = changed("<&intc2 9>, <&intc3 9>", "<&intc2 9>");
    assert_eq!(
        told(&none),
        ["hart 3 of domain critical has no S-level IMSIC file; domains need IMSICs"]
    );
}

/// A guest index has six bits, and hardware may add it to a hart's address.
#[test]
fn files_within_reach_of_a_guest_index_are_found() {
    let moved = |pages: u64| {
        let start = 0x2800_0000 + pages * 0x1000;
        // The region covers both files, and is aligned.
        told(&MACHINE.replace("0x29000000", &format!("{start:#x}")))
    };
    assert_eq!(
        moved(64),
        [
            "the interrupt files of domains critical and linux at 0x28040000 and 0x28001000 are \
             less than 64 pages apart, so an APLIC's guest index may reach over; move one node"
        ]
    );
    assert_eq!(moved(66), [""; 0]);
}

#[test]
fn the_joint_node_of_sockets_is_found() {
    // The partition of `virt-domains.dts`, on the tree that QEMU makes of two sockets.
    let start = MACHINE.find("\t\topensbi-domains {").unwrap();
    let end = MACHINE.find("\n\tmemory@80000000").unwrap();
    let domains = MACHINE[start..end]
        .trim_end()
        .trim_end_matches("};")
        .to_owned();
    let domains = domains
        .replace("order = <30>", "order = <27>")
        .replace("0xc0000000", "0x88000000");
    let mut source = SOCKETS.replace("chosen {", &format!("chosen {{ {domains} }}; ignored {{"));
    source = source.replace("serial@10000000 {", "uart: serial@10000000 {");
    for (hart, domain) in ["linux", "linux", "critical", "critical"]
        .iter()
        .enumerate()
    {
        let node = format!("cpu@{hart} {{");
        source = source.replace(
            &node,
            &format!("cpu{hart}: {node} opensbi-domain = <&{domain}>;"),
        );
    }
    let found = told(&source);
    assert!(
        found
            .iter()
            .any(|one| one.starts_with("the IMSIC node at 0x28000000 joins groups")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|one| one.starts_with("domain linux has the APLIC")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|one| one.contains("reaches memory without an IOMMU")),
        "{found:?}"
    );
}

#[test]
fn devices_without_an_iommu_are_found() {
    let slot = "virtio@10001000 { compatible = \"virtio,mmio\"; reg = <0 0x10001000 0 0x1000>; };";
    assert_eq!(told(&with_device(slot, "")), [""; 0]);
    let owned = with_region(0x1000_1000, 12, 0x1b);
    let owned = owned.replacen(UART, &format!("{slot}\n{UART}"), 1);
    assert_eq!(
        told(&owned),
        [
            "domain linux has the virtio-mmio device at 0x10001000, whose DMA no IOMMU checks; use virtio-pci"
        ]
    );
    for (from, to) in [
        ("iommu-map = <0x0 &iommu 0x0 0x10000>;", ""),
        (
            "iommu-map = <0x0 &iommu 0x0 0x10000>;",
            "iommu-map = <0x0 &iommu 0x0 0x10>;",
        ),
        ("iommu-map = <0x0 &iommu", "iommu-map = <0x0 &uart"),
        (
            "compatible = \"riscv,iommu\";",
            "compatible = \"riscv,iommu\"; status = \"disabled\";",
        ),
    ] {
        let found = told(&changed(from, to));
        let without = found
            .iter()
            .filter(|one| one.contains("reaches memory without an IOMMU"));
        assert!(
            without.count() == 2 + usize::from(!to.contains("0x10>")),
            "{to}: {found:?}"
        );
    }
}

#[test]
fn an_id_that_is_no_routing_id_is_found() {
    const ALL: &str = "iommu-map = <0x0 &iommu 0x0 0x10000>;";
    let other = "`iommu-map` gives function 00:02.0 of domain critical the device ID 0x1010, \
                 which is not its routing ID 0x10; map each function to its routing ID";
    let found = told(&changed(ALL, "iommu-map = <0x0 &iommu 0x1000 0x10000>;"));
    assert_eq!(found.len(), 3, "each function: {found:?}");
    assert!(found.contains(&other.to_owned()), "{found:?}");
    // Entries count from their first requester; the mask is applied before.
    for same in [
        "iommu-map = <0x0 &iommu 0x0 0x10>, <0x10 &iommu 0x10 0xfff0>;",
        "iommu-map = <0x0 &uart 0x7 0x10000>, <0x0 &iommu 0x0 0x10000>;",
    ] {
        assert_eq!(told(&changed(ALL, same)), [""; 0], "{same}");
    }
    let masked = changed(ALL, &format!("iommu-map-mask = <0xff>; {ALL}"));
    let found = told(&masked);
    assert!(
        found.len() == 1 && found[0].contains("function 01:00.0 of domain linux the device ID 0x0"),
        "{found:?}"
    );
    // The firmware gives 24 bits; no entry wraps around to a routing ID.
    let found = told(&changed(
        ALL,
        "iommu-map = <0x0 &iommu 0xffffffff 0x10000>;",
    ));
    assert!(found[0].contains("device ID 0xffffffff"), "{found:?}");
}

/// The card of the critical domain.
const CARD: &str = "<0x02001010 0 0x40000000 0 0x1000>";

#[test]
fn wired_interrupts_of_one_source_are_found() {
    // The disk in slot 1 behind the bridge in slot 1, and the card in slot 2.
    let found = told(&changed("0x03010010 0", "0x03010810 0"));
    assert_eq!(
        found,
        [
            "INTx of functions 00:02.0 (domain critical) and 01:01.0 (domain linux) raise source 34; move one to another slot"
        ]
    );
    // The bridge turns INTA of slot 3 twice more.
    let found = told(&changed("0x03010010 0", "0x03011810 0"));
    assert_eq!(found, [""; 0]);
    let unwired = changed(
        "interrupt-map-mask = <0x1800 0 0 7>;",
        "interrupt-map-mask = <0 0 0 0>;",
    );
    assert!(told(&unwired)[0].contains("raise source 32"), "all in one");
    with_facts(MACHINE, |partition, facts| {
        let at = |bus, device| Function {
            bus,
            device,
            function: 0,
        };
        let linux = &partition.domains[1];
        for (function, pin, line) in [
            (at(0, 3), 4, Some((3, 4))),
            (at(1, 0), 1, Some((1, 1))),
            (at(1, 1), 1, Some((1, 2))),
            (at(1, 2), 3, Some((1, 1))),
            (at(2, 0), 1, None),
        ] {
            let line = line.map(|(device, pin)| IntxLine { device, pin });
            assert_eq!(intx_line(linux, 0, function, pin), line, "{function}");
        }
        for (device, pin, source) in [(0, 1, 32), (1, 2, 34), (2, 1, 34), (3, 4, 34), (5, 1, 33)] {
            let found = facts.wiring.unwrap().source(device, pin);
            assert_eq!(
                found.map(|found| found.source),
                Some(source),
                "{device} {pin}"
            );
        }
        assert_eq!(facts.wiring.unwrap().source(0, 5), None);
    });
}

#[test]
fn functions_of_two_domains_are_found() {
    let both = changed(CARD, "<0x00001000 0 0 0 0>, <0x00000800 0 0 0 0>");
    assert!(
        told(&both)[0].starts_with("function 00:01.0 belongs to domain critical and domain linux")
    );
    let below = changed(CARD, "<0x00010100 0 0 0 0>");
    assert!(told(&below)[0].starts_with("function 01:00.1 belongs to"));
    let bus = changed(CARD, "<0x00001018 1 3 0 0>");
    let found = told(&bus);
    assert!(
        found
            .iter()
            .any(|one| one
                .starts_with("bus 1 lies below bridges of domain critical and domain linux")),
        "{found:?}"
    );
    let space = told(&with_region(0x3020_0000, 20, 0x1b));
    assert!(
        space[0].starts_with("domain linux may access the configuration space of bus 2"),
        "{space:?}"
    );
    let bar = told(&with_region(0x4000_0000, 12, 0x1b));
    let words = "domain linux may access 0x40000000, where function 00:02.0 of domain critical";
    assert!(bar.iter().any(|one| one.starts_with(words)), "{bar:?}");
    let card = with_region(0x300_1000, 12, 0x1b);
    let ports = told(&card.replacen(CARD, "<0x01001010 0 0x1000 0 0x20>", 1));
    let words = "domain linux may access 0x3001000, where function 00:02.0";
    assert!(ports[0].starts_with(words), "{ports:?}");
    let same = told(&changed(CARD, "<0x02001010 0 0x50000000 0 0x1000>"));
    assert!(
        same.iter()
            .any(|one| one.starts_with("functions 00:02.0 and 00:01.0 both decode 0x50000000")),
        "{same:?}"
    );
    static DISKS: [Function; 1] = [Function {
        bus: 1,
        device: 0,
        function: 0,
    }];
    with_facts(MACHINE, |partition, facts| {
        facts.sleep_disks = Some(&DISKS);
        let found = check(partition, facts).unwrap_err().to_string();
        assert!(
            found.starts_with("domain linux has function 01:00.0, a disk with a sleep area"),
            "{found}"
        );
    });
    let hostless = changed("pci-host-ecam-generic", "pci-host-ecam");
    assert!(
        told(&hostless)
            .iter()
            .any(|one| one.contains("no PCI host bridge"))
    );
    let second = "pci@70000000 { compatible = \"pci-host-ecam-generic\"; reg = <0 0x70000000 0 0x100000>; };";
    assert!(
        told(&with_device(second, ""))
            .iter()
            .any(|one| one.contains("several PCI host bridges"))
    );
}

#[test]
fn addresses_that_no_register_holds_are_found() {
    for (entry, words) in [
        (
            "<0x02001010 0 0x40000800 0 0x1000>",
            "register 0x10 cannot hold 0x40000800",
        ),
        (
            "<0x02001010 0 0x40000000 0 0x1800>",
            "register 0x10 cannot hold",
        ),
        ("<0x02001010 0 0x40000000 0 8>", "register 0x10 cannot hold"),
        (
            "<0x02001010 4 0x00000000 0 0x1000>",
            "register 0x10 cannot hold 0x400000000",
        ),
        ("<0x02001010 0 0xffffffff 0 1>", "register 0x10 cannot hold"),
        ("<0x03001010 4 0x00000000 0 0x1000>", ""),
        (
            "<0x02001010 0 0x80000000 0 0x1000>",
            "no window of the PCI host bridge reaches 0x80000000",
        ),
        (
            "<0x02001030 0 0x40000000 0 0x400>",
            "register 0x30 cannot hold",
        ),
        ("<0x01001010 0 0x1000 0 0x20>", ""),
        (
            "<0x01001010 0 0x10000 0 0x20>",
            "no window of the PCI host bridge reaches 0x10000",
        ),
        (
            "<0x00001018 2 2 0 0>, <0x02001020 0 0x40080000 0 0x100000>",
            "register 0x20 cannot hold",
        ),
        (
            "<0x00001018 2 2 0 0>, <0x0100101c 0 0x800 0 0x1000>",
            "register 0x1c cannot hold",
        ),
        ("<0x00001018 2 2 0 0>, <0x03001024 4 0 0 0x300000>", ""),
    ] {
        let found = told(&changed(CARD, entry));
        let is_right = match words {
            "" => found.is_empty(),
            words => found.iter().any(|one| one.contains(words)),
        };
        assert!(is_right, "{entry}: {found:?}, not {words}");
    }
}

/// The tree with machine mode's functions.
fn with_machine_mode(source: &str, entries: &str) -> String {
    let config = "compatible = \"opensbi,domain,config\";";
    assert!(source.contains(config));
    source.replacen(
        config,
        &format!("{config} poorwill,functions = {entries};"),
        1,
    )
}

/// An NVMe controller in slot 6.
const DISK: &str = "<0x03003010 0 0x44000000 0 0x4000>";

#[test]
fn machine_modes_function_needs_no_entries_of_pmp() {
    let source = with_machine_mode(MACHINE, DISK);
    assert_eq!(told(&source), [""; 0]);
    with_facts(&source, |partition, facts| {
        let here = unseen(partition, facts).collect::<Vec<_>>();
        let before = with_facts(MACHINE, |partition, facts| {
            unseen(partition, facts).collect::<Vec<_>>()
        });
        assert_eq!(here, before);
        let kept = KeptRanges::new(partition, facts.machine, facts.firmware).unwrap();
        assert_eq!(entries_of(&partition.domains[1], &kept, PMP), Ok(7));
    });
    // Its INTx is off, so it may raise another function's source.
    let slot = DISK.replace("0x03003010", "0x03001810");
    let card = changed(CARD, "<0x02003810 0 0x40000000 0 0x1000>");
    assert_eq!(told(&with_machine_mode(&card, &slot)), [""; 0]);
}

#[test]
fn a_domain_that_reaches_machine_modes_function_is_found() {
    let own = |source: &str, entries: &str| told(&with_machine_mode(source, entries));
    let bar = own(&with_region(0x4400_2000, 12, 0x1b), DISK);
    let words = "domain linux may access 0x44002000, where function 00:06.0 of machine mode decodes \
                 addresses; leave them out";
    assert_eq!(bar, [words]);
    assert_eq!(own(&with_region(0x4400_4000, 12, 0x1b), DISK), [""; 0]);
    assert_eq!(own(&with_region(0x4400_2000, 12, 0), DISK), [""; 0]);
    let ports = own(
        &with_region(0x300_1000, 12, 0x1b),
        "<0x01003010 0 0x1000 0 0x20>",
    );
    assert!(
        ports[0].starts_with("domain linux may access 0x3001000, where function 00:06.0"),
        "{ports:?}"
    );
    let memory =
        with_region(0x4400_2000, 12, 0x3f).replacen("mmio; base = <0 0x44", "base = <0 0x44", 1);
    assert_eq!(own(&memory, DISK), [words]);
    let both = own(MACHINE, "<0x00001000 0 0 0 0>");
    let words = "function 00:02.0 belongs to domain critical and machine mode; keep one";
    assert_eq!(both, [words]);
    for address in ["0x40000000", "0x50003000"] {
        let same = own(MACHINE, &format!("<0x02003010 0 {address} 0 0x1000>"));
        let words = format!("both decode {address}; move one");
        assert!(same.iter().any(|one| one.ends_with(&words)), "{same:?}");
    }
    static DISKS: [Function; 1] = [Function {
        bus: 0,
        device: 6,
        function: 0,
    }];
    with_facts(&with_machine_mode(MACHINE, DISK), |partition, facts| {
        facts.sleep_disks = Some(&DISKS);
        assert_eq!(check(partition, facts), Ok(()), "machine mode's own");
    });
}

/// The machine without functions of domains.
fn without_functions() -> String {
    let start = MACHINE.find("poorwill,functions =\n").unwrap();
    let end = start + MACHINE[start..].find(">;").unwrap() + 2;
    let source = MACHINE.replacen(&MACHINE[start..end], "", 1);
    let source = source.replacen("<&linux_ecam 0x1b>,", "", 1);
    source.replacen(&format!("poorwill,functions = {CARD};"), "", 1)
}

#[test]
fn machine_modes_function_is_found_where_it_cannot_work() {
    let own = |source: &str, entries: &str| told(&with_machine_mode(source, entries));
    for (entry, words) in [
        (
            "<0x03003010 0 0x44002000 0 0x4000>",
            "function 00:06.0 of machine mode: register 0x10 cannot hold 0x44002000",
        ),
        (
            "<0x03003010 0 0xb0000000 0 0x4000>",
            "function 00:06.0 of machine mode: no window of the PCI host bridge reaches 0xb0000000",
        ),
    ] {
        let found = own(MACHINE, entry);
        assert!(found.len() == 1 && found[0].starts_with(words), "{found:?}");
    }
    let quiet = without_functions();
    assert_eq!(own(&quiet, DISK), [""; 0]);
    let hostless = quiet.replacen("pci-host-ecam-generic", "pci-host-ecam", 1);
    assert_eq!(told(&hostless), [""; 0]);
    let found = own(&hostless, DISK);
    let words = "machine mode has PCI functions, but the machine has no PCI host bridge with ECAM";
    assert_eq!(found[0], words, "{found:?}");
    let second = "pci@70000000 { compatible = \"pci-host-ecam-generic\"; reg = <0 0x70000000 0 0x100000>; };";
    let two = quiet.replacen(UART, &format!("{second}\n{UART}"), 1);
    let found = own(&two, DISK);
    assert!(
        found[0].starts_with("machine mode has PCI functions, and the machine several"),
        "{found:?}"
    );
}

/// Machine mode programs its function itself. An IOMMU that is there must know it, though: its
/// contexts are closed.
#[test]
fn only_an_iommu_that_is_there_must_know_machine_modes_function() {
    const MAP: &str = "iommu-map = <0x0 &iommu 0x0 0x10000>;";
    let own = |source: &str| told(&with_machine_mode(source, DISK));
    let quiet = without_functions();
    let none = quiet.replacen(
        "\"riscv,iommu\";",
        "\"riscv,iommu\"; status = \"disabled\";",
        1,
    );
    assert_eq!(own(&none), [""; 0]);
    let unmapped = own(&quiet.replacen(MAP, "", 1));
    let words = "function 00:06.0 of machine mode reaches memory without an IOMMU; add an IOMMU to \
                 `iommu-map`, or take the function away";
    assert_eq!(unmapped, [words]);
    let other = quiet.replacen(MAP, "iommu-map = <0x0 &iommu 0x1000 0x10000>;", 1);
    let found = own(&other);
    assert!(
        found.len() == 1 && found[0].contains("00:06.0 of machine mode the device ID 0x1030"),
        "{found:?}"
    );
}

#[test]
fn a_pmp_that_does_not_suffice_is_found() {
    with_facts(MACHINE, |partition, facts| {
        let needed = |place: usize, firmware: &[PhysRange]| {
            let kept = KeptRanges::new(partition, facts.machine, firmware).unwrap();
            entries_of(&partition.domains[place], &kept, PMP)
        };
        // Memory without the firmware's takes two entries (TOR), each range of registers one.
        assert_eq!(needed(1, &FIRMWARE), Ok(7));
        assert_eq!(needed(0, &FIRMWARE), Ok(4));
        // A range of the firmware within memory leaves a power of two above it (NAPOT).
        assert_eq!(needed(1, &[PhysRange::new(0xbfe0_0000, 0x10_0000)]), Ok(8));
        facts.pmp = Some(Pmp { entries: 6, ..PMP });
        let found = all(partition, facts);
        let [Unfenced::Plan { error, .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(
            *error,
            PlanError::Entries {
                needed: 7,
                there: 6
            }
        );
        facts.pmp = Some(Pmp::NONE);
        let found = all(partition, facts);
        assert!(found.iter().all(|one| matches!(
            one,
            Unfenced::Plan {
                error: PlanError::NoPmp,
                ..
            }
        )));
        assert_eq!(found.len(), 2);
        facts.pmp = Some(Pmp {
            granularity_bits: 13,
            ..PMP
        });
        assert!(
            check(partition, facts)
                .unwrap_err()
                .to_string()
                .contains("granularity of 2^13")
        );
    });
    let small = told(&with_region(0x1000_2000, 8, 0x1b));
    assert!(small[0].contains("0x10002000 to 0x10002100"), "{small:?}");
    let code = told(&changed("<&critical_ram 0x3f>", "<&critical_ram 0x38>"));
    assert_eq!(code, [""; 0], "machine mode's bits do not count");
}

/// The firmware starts no domain with other permissions, whatever its PMP.
#[test]
fn permissions_that_no_domain_can_have_are_found() {
    for (from, to, start) in [
        (
            "<&critical_ram 0x3f>",
            "<&critical_ram 0x2d>",
            0xc000_0000_u64,
        ),
        ("<&critical_ram 0x3f>", "<&critical_ram 0x1b>", 0xc000_0000),
        ("<&critical_ram 0x3f>", "<&critical_ram 0x9>", 0xc000_0000),
        ("<&linux_uart 0x1b>", "<&linux_uart 0x9>", 0x1000_0000),
        ("<&linux_uart 0x1b>", "<&linux_uart 0x2d>", 0x1000_0000),
    ] {
        with_facts(&changed(from, to), |partition, facts| {
            facts.pmp = None;
            let found = all(partition, facts);
            let [Unfenced::Permissions { start: at, .. }] = found[..] else {
                panic!("{to}: {found:?}")
            };
            assert_eq!(at, start, "{to}");
        });
    }
    assert_eq!(
        told(&changed("<&linux_uart 0x1b>", "<&linux_uart 0x3f>")),
        [""; 0]
    );
}

fn some_regions() -> impl Strategy<Value = Vec<MemoryRegion>> {
    let bits = prop::sample::select(vec![0_u32, 0x9, 0x1b, 0x3f]);
    let region = (3_u32..9, 0_u64..64, bits).prop_map(|(order, place, bits)| MemoryRegion {
        base: ((place << 3) & 0x1ff) >> order << order,
        order,
        is_mmio: false,
        permissions: Permissions::from_bits(bits).unwrap(),
    });
    prop::collection::vec(region, 0..8)
}

/// A domain with regions in the order that a tree's reader gives them.
fn with_regions(mut domain: DomainNode, mut regions: Vec<MemoryRegion>) -> DomainNode {
    regions.sort_by_key(|region| (u32::MAX - region.order, region.base));
    regions.dedup_by_key(|region| (region.order, region.base));
    domain.regions = regions.into_iter().collect();
    domain
}

proptest! {
    /// An overlap is found exactly where an address is open to both domains, in as few pieces as
    /// possible.
    #[test]
    fn overlaps_are_those_of_a_model(one in some_regions(), other in some_regions()) {
        static PARTITION: std::sync::LazyLock<Partition> =
            std::sync::LazyLock::new(|| Partition::read(&compile(MACHINE)).unwrap().unwrap());
        let mut partition = PARTITION.clone();
        let domains: Vec<_> = partition.domains.drain(..).zip([one, other]).collect();
        partition.domains = domains.into_iter().map(|(domain, regions)| with_regions(domain, regions)).collect();
        let machine = Machine::default();
        let facts = Facts {
            machine: &machine,
            tree: None,
            wiring: None,
            firmware: &[],
            pmp: None,
            sleep_disks: None,
        };
        let found: Vec<_> = (all(&partition, &facts).into_iter())
            .filter_map(|finding| match finding {
                Unfenced::Overlap { start, end, .. } => Some(start..end),
                _ => None,
            })
            .collect();
        for address in 0..0x210 {
            let is_both = partition.domains.iter().all(|domain| domain.permissions_at(address).opens());
            let count = found.iter().filter(|range| range.contains(&address)).count();
            prop_assert_eq!(count, usize::from(is_both), "{:#x}", address);
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}
