//! Partitions in device trees: read, refused by name, hashed.

use poorwill_devicetree::{
    FunctionFault, FunctionRange, MAX_REGION_NODES, Machine, NextMode, NodeName, Partition,
    PartitionError, Permissions, open,
};
use poorwill_memory::{MachineIdentity, PhysRange};
use poorwill_pci::Function;
use poorwill_pci::placement::AddressKind;
use proptest::prelude::*;

mod dtc;

use dtc::force as compile;

const MACHINE: &str = include_str!("machines/virt-domains.dts");

fn read(source: &str) -> Result<Option<Partition>, PartitionError> {
    Partition::read(&compile(source))
}

fn partition(source: &str) -> Partition {
    read(source).expect("a good one").expect("one")
}

/// The machine's tree with a part replaced, once.
fn changed(from: &str, to: &str) -> String {
    assert!(MACHINE.contains(from), "{from}");
    MACHINE.replacen(from, to, 1)
}

fn name(text: &str) -> NodeName {
    NodeName::from(text).unwrap()
}

fn permissions(bits: u32) -> Permissions {
    Permissions::from_bits(bits).unwrap()
}

#[test]
fn a_tree_without_domains_has_no_partition() {
    for machine in ["virt-aia.dts", "virt-sockets.dts", "sifive-u.dts"] {
        let file = format!("{}/tests/machines/{machine}", env!("CARGO_MANIFEST_DIR"));
        let source = std::fs::read_to_string(file).unwrap();
        assert_eq!(read(&source), Ok(None), "{machine}");
        let described = Machine::read(&compile(&source)).expect("a machine");
        assert!(!described.has_domains, "{machine}");
    }
}

/// A machine with a bad description has domains, too: the firmware must not start it as one.
#[test]
fn a_machine_knows_that_domains_are_described() {
    let twice = "/ { chosen { again { compatible = \"opensbi,domain,config\"; }; }; };";
    for source in [MACHINE.to_owned(), MACHINE.to_owned() + twice] {
        let machine = Machine::read(&compile(&source)).expect("a machine");
        assert!(machine.has_domains);
    }
    assert!(read(&(MACHINE.to_owned() + twice)).is_err());
}

#[test]
fn a_damaged_tree_with_domains_is_refused() {
    let blob = compile(MACHINE);
    let damaged = &blob[..blob.len() - 4];
    assert_eq!(Partition::read(damaged), Err(PartitionError::Damaged));
    assert_eq!(Partition::read(&[0; 64]), Err(PartitionError::Damaged));
}

#[test]
fn domains_are_found_after_another_compatible_string() {
    for length in 1..9 {
        let other = "x".repeat(length);
        let config = "compatible = \"opensbi,domain,config\"";
        let both = format!("compatible = \"{other}\", \"opensbi,domain,config\"");
        assert_eq!(read(&changed(config, &both)), read(MACHINE), "{length}");
    }
}

/// The firmware reads it on a stack that is bounded.
#[test]
fn a_partition_takes_few_bytes() {
    assert!(
        size_of::<Partition>() <= 17 << 10,
        "{}",
        size_of::<Partition>()
    );
}

#[test]
fn the_domains_stand_in_the_order_of_waking() {
    let partition = partition(MACHINE);
    let [critical, linux] = &partition.domains[..] else {
        panic!("two domains")
    };
    assert_eq!(
        (&*critical.name, critical.wake_order, critical.boot_hart),
        ("critical", 1, 2)
    );
    assert_eq!(
        (&*linux.name, linux.wake_order, linux.boot_hart),
        ("linux", 2, 0)
    );
    assert_eq!(
        (&critical.harts[..], &linux.harts[..]),
        (&[2, 3][..], &[0, 1][..])
    );
    assert_eq!(
        (linux.next_address, linux.next_argument, linux.next_mode),
        (Some(0x8020_0000), Some(0x87f0_0000), NextMode::Supervisor)
    );
    assert_eq!(critical.next_argument, Some(0));
    assert_eq!((linux.may_reset, linux.may_suspend), (true, false));
    assert_eq!((critical.may_reset, critical.may_suspend), (false, true));
    assert_eq!(partition.master(), Some(critical));
    assert_eq!(partition.domain_of(1), Some(linux));
    assert_eq!(partition.domain_of(3), Some(critical));
    assert_eq!(partition.domain_of(4), None);
    assert_eq!(partition.cold_boot_harts[..], [0]);
    assert!(partition.may_boot_cold(0) && !partition.may_boot_cold(1));
}

#[test]
fn the_smallest_region_at_an_address_decides() {
    let partition = partition(MACHINE);
    let linux = &partition.domains[1];
    assert_eq!(linux.permissions_at(0x8000_0000), Permissions::NONE);
    assert_eq!(linux.permissions_at(0x801f_ffff), Permissions::NONE);
    assert_eq!(linux.permissions_at(0x8020_0000), permissions(0x3f));
    assert_eq!(linux.permissions_at(0xbfff_ffff), permissions(0x3f));
    assert_eq!(linux.permissions_at(0xc000_0000), Permissions::NONE);
    let uart = linux.region_at(0x1000_0fff).unwrap();
    assert!(uart.is_mmio && !uart.permissions.executes());
    assert_eq!(linux.devices[..], [0x100]);
    let spans = linux.spans();
    let memory = spans.last().unwrap();
    assert_eq!(
        memory.range,
        PhysRange {
            start: 0x8020_0000,
            end: 0xc000_0000
        }
    );
    assert!(!memory.is_mmio && memory.permissions.writes());
    assert_eq!(spans.len(), 6);
}

#[test]
fn functions_have_their_buses_and_addresses() {
    let partition = partition(MACHINE);
    let [critical, linux] = &partition.domains[..] else {
        panic!("two domains")
    };
    let at = |bus, device| Function {
        bus,
        device,
        function: 0,
    };
    let functions: Vec<_> = linux
        .functions
        .iter()
        .map(|one| (one.function, one.buses))
        .collect();
    assert_eq!(functions, [(at(0, 1), Some((1, 1))), (at(1, 0), None)]);
    let ranges: Vec<_> = linux
        .ranges
        .iter()
        .map(|range| (range.register, range.kind))
        .collect();
    assert_eq!(
        ranges,
        [(0x20, AddressKind::Memory32), (0x10, AddressKind::Memory64)]
    );
    assert_eq!(
        critical.ranges[..],
        [FunctionRange {
            function: at(0, 2),
            register: 0x10,
            kind: AddressKind::Memory32,
            is_prefetchable: false,
            range: PhysRange::new(0x4000_0000, 0x1000),
        }]
    );
}

#[test]
fn what_a_tree_leaves_out_has_a_default() {
    // A lone domain needs no order, and its cold-boot hart starts it.
    let lone = "/dts-v1/; / { #address-cells = <2>; #size-cells = <2>;
        chosen { opensbi-config { compatible = \"opensbi,config\"; cold-boot-harts = <&c1 &c0>; };
            more { domains { compatible = \"opensbi,domain,config\";
                all: all { compatible = \"opensbi,domain,memregion\"; base = <0 0>; order = <64>; };
                only: only { compatible = \"opensbi,domain,instance\"; possible-harts = <&c0 &c1>;
                    root-regions-inheritance = \"m-only\"; regions = <&all 0x38>;
                    system-suspend-allowed; }; }; }; };
        cpus { #address-cells = <1>; #size-cells = <0>;
            c0: cpu@4 { device_type = \"cpu\"; reg = <4>; mmu-type = \"riscv,sv39\";
                opensbi-domain = <&only>; interrupt-controller { }; };
            c1: cpu@9 { device_type = \"cpu\"; reg = <9>; mmu-type = \"riscv,sv39\";
                opensbi-domain = <&only>; interrupt-controller { }; };
            cpu@1 { device_type = \"cpu\"; reg = <1>; interrupt-controller { }; }; }; };";
    let partition = partition(lone);
    let [domain] = &partition.domains[..] else {
        panic!("one domain")
    };
    assert_eq!((&domain.harts[..], domain.boot_hart), (&[4, 9][..], 4));
    assert_eq!((domain.next_address, domain.next_argument), (None, None));
    assert!(domain.permissions_at(u64::MAX).executes());
    assert_eq!(domain.spans()[0].range.end, u64::MAX);
    assert_eq!(partition.cold_boot_harts[..], [4, 9]);
}

/// Parts of the machine's tree, their replacements, and the refusals.
const REFUSED: [(&str, &str, &str); 34] = [
    (
        "<&critical_ram 0x3f>",
        "<&critical_ram 0x7f>",
        "domain critical: permissions 0x7f at 0xc0000000: bit 6 would bind machine mode, which Poorwill does not lock; clear it",
    ),
    (
        "<&critical_ram 0x3f>",
        "<&critical_ram 0x80>",
        "domain critical: permissions 0x80 at 0xc0000000: bits above 5 are unknown",
    ),
    (
        "<&critical_ram 0x3f>",
        "<&critical_ram 0x13f>",
        "domain critical: permissions 0x13f at 0xc0000000: bits above 5 are unknown",
    ),
    (
        "<&critical_ram 0x3f>",
        "<&critical_ram 0x7>",
        "domain critical: permissions 0x7 at 0xc0000000: a domain's region needs a bit of S and U mode",
    ),
    (
        "<&critical_ram 0x3f>",
        "<&critical_ram 0x10>",
        "domain critical: permissions 0x10 at 0xc0000000: PMP has no writes without reads",
    ),
    (
        "<&critical_ram 0x3f>",
        "<0x999 0x3f>",
        "critical: `regions` names phandle 0x999",
    ),
    (
        "<&critical_card 0x1b>",
        "<&critical_card>",
        "critical: `regions` has a wrong length",
    ),
    (
        "<&critical_card 0x1b>",
        "<&critical_card 0x1b>, <&critical_card 0x9>",
        "domain critical: two regions have base 0x40000000 and order 12",
    ),
    (
        "linux: linux {",
        "linux: linux { root-regions-inheritance = \"all\";",
        "domain linux: `root-regions-inheritance` is not \"m-only\"",
    ),
    (
        "linux: linux {",
        "linux: linux { system-suspend-allowed;",
        "domains critical and linux have `system-suspend-allowed`",
    ),
    (
        "next-mode = <1>",
        "next-mode = <3>",
        "domain linux: `next-mode` is 3; use 1, S-mode, or 0, U-mode",
    ),
    (
        "next-mode = <1>",
        "next-mode = <1 1>",
        "linux: `next-mode` has a wrong length",
    ),
    (
        "opensbi-domain = <&critical>",
        "opensbi-domain = <0x999>",
        "hart 2: `opensbi-domain` names phandle 0x999",
    ),
    (
        "mmu-type = \"riscv,sv48\";\n\t\t\topensbi-domain = <&critical>",
        "opensbi-domain = <&critical>",
        "hart 2 has a domain, but no MMU",
    ),
    ("reg = <3>", "reg = <2>", "two CPUs have hart ID 2"),
    (
        "boot-hart = <&cpu2>",
        "boot-hart = <&cpu1>",
        "domain critical: boot hart 1 is not one of its harts",
    ),
    (
        "boot-hart = <&cpu2>",
        "boot-hart = <0x999>",
        "critical: `boot-hart` names phandle 0x999",
    ),
    (
        "boot-hart = <&cpu0>",
        "boot-hart = <&cpu1>",
        "domain linux: `cold-boot-harts` lists a hart of it, but not its boot hart 1",
    ),
    (
        "cold-boot-harts = <&cpu0>",
        "cold-boot-harts = <0x999>",
        "opensbi-config: `cold-boot-harts` names phandle 0x999",
    ),
    (
        "cold-boot-harts = <&cpu0>",
        "cold-boot-harts",
        "opensbi-config: `cold-boot-harts` has a wrong length",
    ),
    (
        "possible-harts = <&cpu2>, <&cpu3>",
        "possible-harts = <&cpu2>",
        "domain critical has hart 3, which its `possible-harts` does not list",
    ),
    (
        "possible-harts = <&cpu2>",
        "possible-harts = <0x999>, <&cpu2>",
        "critical: `possible-harts` names phandle 0x999",
    ),
    (
        "possible-harts = <&cpu0>, <&cpu1>;",
        "",
        "domain linux has hart 0, which",
    ),
    (
        "wake-order = <1>",
        "wake-order = <2>",
        "domains linux and critical have wake order 2",
    ),
    (
        "poorwill,wake-order = <1>;",
        "",
        "critical: `poorwill,wake-order` is missing",
    ),
    (
        "devices = <&uart>",
        "devices = <0x999>",
        "linux: `devices` names phandle 0x999",
    ),
    (
        "base = <0x0 0x40000000>",
        "base = <0x0 0x40000800>",
        "critical_card: base 0x40000800 is not a multiple of 2^12",
    ),
    (
        "base = <0x0 0x40000000>",
        "base = <0x40000000>",
        "critical_card: `base` has a wrong length",
    ),
    (
        "base = <0x0 0x40000000>;",
        "",
        "critical_card: `base` is missing",
    ),
    (
        "order = <21>",
        "order = <2>",
        "firmware: order 2 is not within 3 and 64",
    ),
    (
        "order = <21>",
        "order = <65>",
        "firmware: order 65 is not within 3 and 64",
    ),
    (
        "compatible = \"opensbi,domain,config\";",
        "compatible = \"opensbi,domain,config\"; other { };",
        "other: the node is neither a domain nor a memory region",
    ),
    (
        "opensbi-config {",
        "second { compatible = \"opensbi,domain,config\"; }; opensbi-config {",
        "/chosen has two nodes opensbi,domain,config",
    ),
    (
        "linux: linux {",
        "linux: linux-of-a-name-that-is-longer-than-any-name-may-be {",
        "linux-of-a-name-that-is-longer-than-any-name-may: the node's name is too long",
    ),
];

#[test]
fn refused_partitions_are_named() {
    for (from, to, words) in REFUSED {
        let refusal = read(&changed(from, to)).expect_err(words).to_string();
        assert!(refusal.starts_with(words), "{refusal}, not {words}");
    }
}

/// OpenSBI starts such a machine as one without a partition.
#[test]
fn a_description_without_domains_describes_none() {
    let region = "m: m { compatible = \"opensbi,domain,memregion\"; base = <0 0>; order = <64>; };";
    for inside in ["", region, "other { };"] {
        let empty = format!(
            "/dts-v1/; / {{ chosen {{ d {{ compatible = \"opensbi,domain,config\"; {inside} }}; }}; }};"
        );
        assert_eq!(read(&empty), Ok(None), "{inside}");
    }
    let source = include_str!("machines/virt-aia.dts");
    let empty = "/ { chosen { d { compatible = \"opensbi,domain,config\"; }; }; };";
    let [without, with] = [source.to_owned(), source.to_owned() + empty].map(|source| {
        let machine = Machine::read(&compile(&source)).expect("a machine");
        assert!(!machine.has_domains);
        machine
    });
    assert!(without.spare_source.is_some());
    assert_eq!(without.spare_source, with.spare_source);
}

#[test]
fn a_domain_without_harts_is_refused() {
    let idle = "idle { compatible = \"opensbi,domain,instance\"; poorwill,wake-order = <9>; };";
    let idle = changed("linux: linux {", &format!("{idle} linux: linux {{"));
    assert_eq!(read(&idle), Err(PartitionError::NoHarts(name("idle"))));
}

/// All reasons are named at once, not the first one alone.
#[test]
fn each_reason_is_named() {
    let source = changed("<&critical_ram 0x3f>", "<&critical_ram 0x7f>, <0x999 0>")
        .replace("next-mode = <1>", "next-mode = <3>")
        .replace(
            "possible-harts = <&cpu2>, <&cpu3>",
            "possible-harts = <0x998>",
        )
        .replace("wake-order = <1>", "wake-order = <2>")
        .replace("boot-hart = <&cpu0>", "boot-hart = <&cpu3>");
    let blob = compile(&source);
    let mut all = Vec::new();
    let mut partition = Partition::default();
    let tree = open(&blob).unwrap();
    assert!(partition.survey(&tree, &mut |error| all.push(error.to_string())));
    let starts = [
        "domains linux and critical have wake order 2",
        "domain linux: `next-mode` is 3",
        "domain critical: `next-mode` is 3",
        "critical: `possible-harts` names phandle 0x998",
        "domain critical has hart 2",
        "domain critical has hart 3",
        "domain critical: permissions 0x7f",
        "critical: `regions` names phandle 0x999",
        "domain linux: boot hart 3 is not one of its harts",
    ];
    for start in starts {
        assert!(
            all.iter().any(|one| one.starts_with(start)),
            "{start}: {all:#?}"
        );
    }
    assert_eq!(all.len(), starts.len(), "{all:#?}");
    assert_eq!(read(&source).unwrap_err().to_string(), all[0]);
}

/// OpenSBI's binding has no order of waking: the master is first, then the names count.
#[test]
fn domains_without_wake_orders_get_theirs() {
    let unordered =
        changed("poorwill,wake-order = <1>;", "").replace("poorwill,wake-order = <2>;", "");
    let order = |source: &str| {
        let domains = partition(source).domains;
        let all = domains
            .iter()
            .map(|domain| (domain.name.to_string(), domain.wake_order));
        all.collect::<Vec<_>>()
    };
    let of = |name: &str, order| (name.to_owned(), order);
    assert_eq!(order(&unordered), [of("critical", 0), of("linux", 1)]);
    let without_master = unordered.replace("system-suspend-allowed;", "");
    assert_eq!(order(&without_master), [of("critical", 0), of("linux", 1)]);
    assert_eq!(partition(&without_master).master(), None);
    let other = unordered.replace("linux: linux {", "linux: a-linux {");
    assert_eq!(order(&other), [of("critical", 0), of("a-linux", 1)]);
}

#[test]
fn harts_and_boot_harts_have_defaults() {
    // A hart without a domain is no domain's; here it was the boot hart.
    let without = changed("opensbi-domain = <&critical>;", "");
    assert!(read(&without).is_err());
    let without = partition(&without.replace("boot-hart = <&cpu2>;", ""));
    assert_eq!(
        (
            without.domain_of(2),
            without.domain_of(3).unwrap().boot_hart
        ),
        (None, 3)
    );
    let first = partition(&changed("boot-hart = <&cpu2>;", ""));
    assert_eq!(first.domain_of(2).unwrap().boot_hart, 2);
    let user = partition(&changed("next-mode = <1>", "next-mode = <0>"));
    assert_eq!(user.domain_of(0).unwrap().next_mode, NextMode::User);
}

#[test]
fn full_lists_are_refused() {
    let overflows = |source: &str, what: &str| {
        let error = read(source).unwrap_err();
        assert!(error.to_string().contains(what), "{error}, not {what}");
    };
    let regions = |count: usize, also: &str| {
        let node = |number: usize| {
            let base = 0x1000 * number;
            format!(
                "r{number}: r{number} {{ compatible = \"opensbi,domain,memregion\"; \
                 base = <0x1 {base:#x}>; order = <12>; {also} }};\n"
            )
        };
        let nodes: String = (0..count).map(node).collect();
        changed("linux: linux {", &format!("{nodes} linux: linux {{"))
    };
    overflows(
        &regions(MAX_REGION_NODES, ""),
        "more than 64 memory regions",
    );
    let listed = |count: u32| {
        (0..count)
            .map(|one| format!("<&r{one} 0x3f>,"))
            .collect::<String>()
    };
    let grants = |source: String, count: u32| {
        source.replace(
            "regions = <&critical_ram",
            &format!("regions = {} <&critical_ram", listed(count)),
        )
    };
    assert!(read(&grants(regions(12, ""), 12)).is_ok());
    overflows(
        &grants(regions(13, ""), 13),
        "more than 16 memory regions of a domain",
    );
    let many: String = (0..33).map(|one| format!("{one} ")).collect();
    let devices = grants(regions(1, &format!("devices = <{many}>;")), 1);
    overflows(&devices, "more than 32 devices of a domain's regions");
    let domain = |number: u32| {
        format!(
            "d{number} {{ compatible = \"opensbi,domain,instance\"; poorwill,wake-order = <{number}>; }};"
        )
    };
    let domains: String = (10..17).map(domain).collect();
    let domains = changed("linux: linux {", &format!("{domains} linux: linux {{"));
    overflows(&domains, "more than 8 domains");
    let cpu = |number: u32| format!("cpu@{number} {{ reg = <{number}>; }};");
    let cpus: String = (100..161).map(cpu).collect();
    overflows(
        &changed("\t\tcpu0: cpu@0", &format!("{cpus} cpu0: cpu@0")),
        "more than 64 CPUs",
    );
}

fn with_functions(entries: &str) -> String {
    changed("<0x02001010 0 0x40000000 0 0x1000>", entries)
}

/// Entries of the card in slot 2, each with the register and the reason of the refusal.
const REFUSED_ENTRIES: [(&str, u8, FunctionFault); 18] = [
    (
        "<0x22001010 0 0x40000000 0 0x1000>",
        0x10,
        FunctionFault::Flags,
    ),
    (
        "<0x06001010 0 0x40000000 0 0x1000>",
        0x10,
        FunctionFault::Flags,
    ),
    (
        "<0x02001012 0 0x40000000 0 0x1000>",
        0x12,
        FunctionFault::Register,
    ),
    (
        "<0x02001028 0 0x40000000 0 0x1000>",
        0x28,
        FunctionFault::Register,
    ),
    (
        "<0x01001030 0 0x1000 0 0x1000>",
        0x30,
        FunctionFault::Register,
    ),
    (
        "<0x03001024 0 0x40000000 0 0x1000>",
        0x24,
        FunctionFault::Register,
    ),
    ("<0x00001004 0 0 0 0>", 4, FunctionFault::Register),
    ("<0x00001000 0 1 0 0>", 0, FunctionFault::Register),
    ("<0x00001000 0 0 0 1>", 0, FunctionFault::Length),
    ("<0x02001010 0 0x40000000 0 0>", 0x10, FunctionFault::Length),
    (
        "<0x03001010 0xffffffff 0xfffff000 0 0x1000>",
        0x10,
        FunctionFault::Length,
    ),
    ("<0x00001018 0 0 0 0>", 0x18, FunctionFault::Buses),
    ("<0x00001018 3 2 0 0>", 0x18, FunctionFault::Buses),
    ("<0x00001018 1 256 0 0>", 0x18, FunctionFault::Buses),
    (
        "<0x00001018 2 2 0 0>, <0x00001018 2 2 0 0>",
        0x18,
        FunctionFault::Twice,
    ),
    (
        "<0x02001010 0 0x40000000 0 0x1000>, <0x02001010 0 0x40001000 0 0x1000>",
        0x10,
        FunctionFault::Twice,
    ),
    // The upper half of an address takes the next register.
    (
        "<0x03001010 0 0x40000000 0 0x1000>, <0x02001014 0 0x40001000 0 0x1000>",
        0x14,
        FunctionFault::Twice,
    ),
    // A bridge's window is no BAR.
    (
        "<0x00001018 2 2 0 0>, <0x03001020 0 0x40000000 0 0x100000>",
        0x20,
        FunctionFault::Register,
    ),
];

#[test]
fn functions_are_refused_by_entry() {
    let domain = name("critical");
    let function = Function {
        bus: 0,
        device: 2,
        function: 0,
    };
    for (entries, register, fault) in REFUSED_ENTRIES {
        let error = PartitionError::Function {
            node: domain,
            function,
            register,
            fault,
        };
        assert_eq!(read(&with_functions(entries)), Err(error), "{entries}");
    }
    let short = with_functions("<0x02001010 0 0x40000000 0>");
    let property = "poorwill,functions";
    assert_eq!(
        read(&short),
        Err(PartitionError::Malformed {
            node: domain,
            property
        })
    );
    let plain = partition(&with_functions("<0x80001000 0 0 0 0>"));
    assert_eq!(plain.domains[0].functions[0].function, function);
}

/// The node of the domains with machine mode's functions.
fn with_machine_mode(entries: &str) -> String {
    let config = "compatible = \"opensbi,domain,config\";";
    changed(config, &format!("{config} poorwill,functions = {entries};"))
}

/// An NVMe controller.
const DISK: &str = "<0x03003010 0 0x44000000 0 0x4000>";

#[test]
fn machine_mode_has_functions_of_its_own() {
    assert!(partition(MACHINE).functions.is_empty());
    let memory = "<0x43003818 4 0 0 0x1000000>, <0x02003810 0 0x44004000 0 0x100>";
    let both = partition(&with_machine_mode(&format!("{memory}, {DISK}")));
    let at = |device| Function {
        bus: 0,
        device,
        function: 0,
    };
    let functions: Vec<_> = both.functions.iter().map(|one| one.function).collect();
    assert_eq!(functions, [at(6), at(7)]);
    assert!(both.functions.iter().all(|one| one.buses.is_none()));
    let ranges: Vec<_> = (both.ranges.iter())
        .map(|range| (range.function, range.register, range.range))
        .collect();
    assert_eq!(
        ranges,
        [
            (at(6), 0x10, PhysRange::new(0x4400_0000, 0x4000)),
            (at(7), 0x10, PhysRange::new(0x4400_4000, 0x100)),
            (at(7), 0x18, PhysRange::new(0x4_0000_0000, 0x100_0000)),
        ]
    );
    assert_eq!(both.ranges[0].kind, AddressKind::Memory64);
    assert!(both.ranges[2].is_prefetchable);
    assert_eq!(both.domains, partition(MACHINE).domains);
}

/// Machine mode places its function, and fences the domain from it.
#[test]
fn a_domain_beside_machine_modes_function_is_not_lone() {
    let mut one = partition(MACHINE);
    one.domains.truncate(1);
    one.domains[0].functions.clear();
    assert!(one.lone().is_some());
    one.functions = partition(&with_machine_mode(DISK)).functions;
    assert!(one.lone().is_none());
}

#[test]
fn functions_of_machine_mode_are_refused_by_entry() {
    let node = name("opensbi-domains");
    let at = |bus| Function {
        bus,
        device: 6,
        function: 0,
    };
    let refused = |entries: &str| read(&with_machine_mode(entries)).unwrap_err();
    for (entries, bus, register, fault) in [
        ("<0x00003018 2 2 0 0>", 0, 0x18, FunctionFault::OwnBridge),
        (
            "<0x03013010 0 0x44000000 0 0x4000>",
            1,
            0x10,
            FunctionFault::NotFirstBus,
        ),
        ("<0x00ff3000 0 0 0 0>", 255, 0, FunctionFault::NotFirstBus),
        ("<0x00003004 0 0 0 0>", 0, 4, FunctionFault::Register),
        (
            "<0x03003024 0 0x44000000 0 0x4000>",
            0,
            0x24,
            FunctionFault::Register,
        ),
    ] {
        let error = PartitionError::Function {
            node,
            function: at(bus),
            register,
            fault,
        };
        assert_eq!(refused(entries), error, "{entries}");
    }
    let property = "poorwill,functions";
    assert_eq!(
        refused("<0x03003010 0 0x44000000 0>"),
        PartitionError::Malformed { node, property }
    );
    let three = refused("<0x3000 0 0 0 0>, <0x3800 0 0 0 0>, <0x4000 0 0 0 0>");
    let words = "the device tree has more than 2 PCI functions of machine mode";
    assert_eq!(three.to_string(), words);
    let bar = |place: u32| format!("<{:#x} 0 {place:#x}0000 0 0x1000>", 0x0200_3010 + 4 * place);
    let six: Vec<_> = (0..6).map(bar).collect();
    assert_eq!(
        partition(&with_machine_mode(&six.join(","))).ranges.len(),
        6
    );
    let seven = refused(&format!(
        "{}, <0x02003810 0 0x70000 0 0x1000>",
        six.join(",")
    ));
    let words = "the device tree has more than 6 ranges of machine mode's functions";
    assert_eq!(seven.to_string(), words);
}

/// Stored images of lone domains have it.
#[test]
fn the_digest_of_a_partition_stays() {
    assert_eq!(partition(MACHINE).digest(), 7_389_591_668_056_077_121);
}

fn identity(source: &str) -> MachineIdentity {
    let machine = Machine::read(&compile(source)).unwrap();
    machine.identity(&machine.memory)
}

#[test]
fn the_identity_contains_the_partition() {
    let identity = identity(MACHINE);
    let with = |source: &str| partition(source).identity(identity);
    let before = with(MACHINE);
    assert_ne!(before.device_tree, identity.device_tree);
    assert_eq!(before.memory, identity.memory);
    let counted = [
        ("<&critical_ram 0x3f>", "<&critical_ram 0x1f>"),
        ("order = <21>", "order = <20>"),
        (
            "possible-harts = <&cpu0>, <&cpu1>;",
            "possible-harts = <&cpu1>, <&cpu0>; system-x;",
        ),
        ("system-reset-allowed;", ""),
        ("wake-order = <2>", "wake-order = <3>"),
        ("0x00000818 1 1", "0x00000818 1 2"),
        ("0x02001010 0 0x40000000", "0x02001010 0 0x40001000"),
        ("linux: linux", "linux: debian"),
        ("devices = <&uart>;", ""),
        ("mmio;", ""),
        (
            "next-addr = <0x0 0x80200000>",
            "next-addr = <0x0 0x80400000>",
        ),
        ("next-arg1 = <0x0 0x87f00000>;", ""),
    ];
    let own = with(&with_machine_mode(DISK));
    let moved = with(&with_machine_mode("<0x03003010 0 0x44004000 0 0x4000>"));
    assert!(own != before && own != moved && moved != before);
    // The order of a list, an unknown property, and what matters at a cold boot alone do not count.
    let uncounted = ["possible-harts", "next-addr", "next-arg1"];
    for (from, to) in counted {
        let is_same = uncounted.iter().any(|property| from.starts_with(property));
        let after = with(&changed(from, to));
        assert_eq!(after == before, is_same, "{from}");
    }
}

/// These images would not wake otherwise.
#[test]
fn the_identity_of_a_machine_without_partition_stays() {
    let source = include_str!("machines/virt-aia.dts");
    let here = identity(source);
    assert_eq!(
        [here.memory, here.harts, here.isa, here.device_tree],
        [
            11_429_842_563_071_894_952,
            4_205_797_264_908_297_021,
            12_941_754_890_427_427_909,
            6_444_768_238_551_259_620
        ]
    );
}

/// Naturally aligned regions within few addresses, so that they often nest.
fn some_regions() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    let region = (
        3_u32..9,
        0_u64..64,
        prop::sample::select(vec![0_u32, 0x9, 0x1b, 0x38, 0x3f]),
    );
    let region = region
        .prop_map(|(order, place, bits)| (((place << 3) & 0x1ff) >> order << order, order, bits));
    prop::collection::vec(region, 0..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The permissions and the spans are those of the smallest region, as a search of all says.
    #[test]
    fn the_smallest_region_wins_in_any_order(mut regions in some_regions()) {
        regions.sort_unstable();
        regions.dedup_by_key(|(base, order, _)| (*base, *order));
        let node = |(number, (base, order, _)): (usize, &(u64, u32, u32))| format!(
            "r{number}: r{number} {{ compatible = \"opensbi,domain,memregion\"; base = <0 {base}>; order = <{order}>; }};\n"
        );
        let nodes: String = regions.iter().enumerate().map(node).collect();
        let list = |(number, (.., bits)): (usize, &(u64, u32, u32))| format!("<&r{number} {bits}>,");
        let list: String = regions.iter().enumerate().map(list).collect();
        let source = changed("critical: critical {", &format!("{nodes} critical: critical {{"));
        let source = source.replace("regions = <&critical_ram", &format!("regions = {list} <&critical_ram"));
        let partition = partition(&source);
        let domain = &partition.domains[0];
        let spans = domain.spans();
        for address in 0..0x208_u64 {
            let there = regions.iter().filter(|(base, order, _)| address >> order == base >> order);
            let bits = there.min_by_key(|(_, order, _)| *order).map_or(0, |(.., bits)| *bits);
            prop_assert_eq!(domain.permissions_at(address).bits(), bits);
            let span = spans.iter().find(|span| span.range.contains(address));
            let of_span = span.map_or(0, |span| span.permissions.bits());
            prop_assert_eq!(of_span, if bits >> 3 == 0 { 0 } else { bits });
        }
        let ends = spans.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start);
        prop_assert!(ends);
    }

    /// Neither the order of nodes nor that of a list changes the partition.
    #[test]
    fn the_order_of_nodes_does_not_matter(seed in any::<u64>()) {
        let start = MACHINE.find("\n\t\t\tlinux_ram").unwrap();
        let end = MACHINE.find("\n\t\t};\n\t};\n\n\tmemory@8").unwrap();
        let mut nodes: Vec<_> = MACHINE[start..end].split("\n\n").collect();
        prop_assert_eq!(nodes.len(), 13);
        let mut order = seed;
        for place in (1..nodes.len()).rev() {
            order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            nodes.swap(place, (order >> 33) as usize % (place + 1));
        }
        let source = [&MACHINE[..start], "\n", &nodes.join("\n\n"), &MACHINE[end..]].concat();
        let source = source
            .replace("<&cpu2>, <&cpu3>", "<&cpu3>, <&cpu2>")
            .replace("<&linux_ram 0x3f>, <&firmware 0x0>", "<&firmware 0x0>, <&linux_ram 0x3f>");
        let (before, after) = (partition(MACHINE), partition(&source));
        prop_assert_eq!(before.digest(), after.digest());
        prop_assert_eq!(before, after);
    }
}
