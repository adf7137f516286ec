//! Descriptions as people write them for OpenSBI: a region of all addresses, from which smaller ones
//! without permissions take parts away.

use arrayvec::ArrayVec;
use poorwill_devicetree::{Machine, NextMode, Partition, PciWiring, open};
use poorwill_domain::check::{Facts, entries_of, findings, unseen};
use poorwill_domain::pmp::{PHYSICAL_ADDRESS_BITS, Pmp};
use poorwill_domain::{Domain, HartSet, KeptRanges, LoadedStage, NextStage, Rights, memory_of};
use poorwill_memory::{MemoryMap, PhysRange};

#[path = "../../devicetree/tests/dtc/mod.rs"]
mod dtc;

use dtc::force as compile;

const PLIC: &str = include_str!("../../devicetree/tests/machines/virt-plic.dts");
const AIA: &str = include_str!("../../devicetree/tests/machines/virt-aia.dts");

const FIRMWARE: [PhysRange; 2] = [
    PhysRange {
        start: 0x8000_0000,
        end: 0x801c_0000,
    },
    PhysRange {
        start: 0x8be0_0000,
        end: 0x8c00_0000,
    },
];

const PMP: Pmp = Pmp {
    entries: 16,
    granularity_bits: 2,
};

/// The example of OpenSBI's binding, for QEMU's `virt`: a trusted domain with a part of memory and
/// the UART, and one with all the rest.
fn example(machine: &str) -> String {
    format!(
        "{machine}\n/ {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";
        tmem: tmem {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x84000000>; order = <20>; }};
        tuart: tuart {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x10000000>; order = <12>;
            mmio; devices = <&{{/soc/serial@10000000}}>; }};
        allmem: allmem {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x0>; order = <64>; }};
        tdomain: trusted-domain {{ compatible = \"opensbi,domain,instance\";
            possible-harts = <&{{/cpus/cpu@0}}>; regions = <&tmem 0x3f>, <&tuart 0x3f>;
            boot-hart = <&{{/cpus/cpu@0}}>; next-arg1 = <0x0 0x0>; next-addr = <0x0 0x84000000>;
            next-mode = <0x0>; system-reset-allowed; system-suspend-allowed; }};
        udomain: untrusted-domain {{ compatible = \"opensbi,domain,instance\";
            possible-harts = <&{{/cpus/cpu@1}}>; regions = <&tmem 0x0>, <&tuart 0x0>, <&allmem 0x3f>; }};
        }}; }}; cpus {{ cpu@0 {{ opensbi-domain = <&tdomain>; }}; cpu@1 {{ opensbi-domain = <&udomain>; }}; }}; }};"
    )
}

fn with<T>(source: &str, act: impl FnOnce(&Partition, &Facts<'_>) -> T) -> T {
    let blob = compile(source);
    let machine = Machine::read(&blob).expect("a machine");
    let partition = Partition::read(&blob).expect("a good one").expect("one");
    let tree = open(&blob);
    let facts = Facts {
        machine: &machine,
        tree,
        wiring: tree.and_then(|tree| PciWiring::first(&tree)),
        firmware: &FIRMWARE,
        pmp: Some(PMP),
        sleep_disks: None,
    };
    act(&partition, &facts)
}

fn told(source: &str) -> Vec<String> {
    with(source, |partition, facts| {
        let mut all = Vec::new();
        findings(partition, facts, &mut |finding| {
            all.push(finding.to_string())
        });
        all
    })
}

#[test]
fn the_example_of_the_binding_is_fenced() {
    for (machine, entries) in [(PLIC, 12), (AIA, 15)] {
        assert_eq!(told(&example(machine)), [""; 0]);
        with(&example(machine), |partition, facts| {
            let kept = KeptRanges::new(partition, facts.machine, &FIRMWARE).unwrap();
            let [trusted, untrusted] = &partition.domains[..] else {
                panic!("two domains")
            };
            assert_eq!(
                (&*trusted.name, trusted.next_mode),
                ("trusted-domain", NextMode::User)
            );
            assert_eq!(untrusted.boot_hart, 1);
            assert!(!kept.takes_interrupts(trusted, facts.machine));
            assert!(kept.takes_interrupts(untrusted, facts.machine));
            assert_eq!(entries_of(trusted, &kept, PMP), Ok(2));
            assert_eq!(entries_of(untrusted, &kept, PMP), Ok(entries));
            let is_open = |start| {
                kept.first_access(untrusted, PhysRange::new(start, 4))
                    .is_some()
            };
            // Firmware, the other domain's, reset register, clock, timers, virtio, fw_cfg, flash,
            // configuration space, the other hart's file.
            for start in [
                0x8000_0000,
                0x8be0_0000,
                0x8400_0000,
                0x1000_0000,
                0x10_0000,
                0x10_1000,
                0x200_0000,
                0x1000_1000,
                0x1000_8000,
                0x1010_0000,
                0x2000_0000,
                0x3000_0000,
                0x3fff_f000,
            ] {
                assert!(!is_open(start), "{start:#x}");
            }
            for start in [
                0x801c_0000,
                0x8410_0000,
                0x8fff_f000,
                0xc20_0000,
                0xd00_0000,
            ] {
                assert!(is_open(start), "{start:#x}");
            }
            let has_files = facts.machine.harts[0].os_imsic.is_some();
            assert_eq!(is_open(0x2800_0000), !has_files);
            assert!(is_open(0x2800_1000));
        });
    }
}

/// What stays a danger to another domain stays a finding.
#[test]
fn what_two_domains_share_is_found() {
    let shared = example(AIA).replace("<&tmem 0x0>, ", "");
    assert_eq!(
        told(&shared),
        [
            "domains trusted-domain and untrusted-domain may both access 0x84000000 to 0x84100000; \
          give the addresses to one of them"
        ]
    );
    // Both have an interrupt controller.
    let both = example(PLIC).replace("<&tuart 0x3f>;", "<&tuart 0x3f>, <&plic 0x3f>;").replace(
        "allmem: allmem {",
        "plic: plic { compatible = \"opensbi,domain,memregion\"; base = <0x0 0xc000000>; order = <23>; };
        allmem: allmem {",
    );
    let found = told(&both);
    assert!(
        found
            .iter()
            .any(|one| one.starts_with("a PLIC at 0xc000000")),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|one| one.contains("may both access 0xc000000")),
        "{found:#?}"
    );
    // Machine mode closes these devices to regions of memory only.
    let named = example(AIA).replace("order = <64>;", "order = <64>; mmio;");
    let found = told(&named);
    assert_eq!(
        found
            .iter()
            .filter(|one| one.contains("virtio-mmio device"))
            .count(),
        8
    );
    assert!(
        found
            .iter()
            .any(|one| one.contains("configuration space of bus 1")),
        "{found:#?}"
    );
    let strange = example(AIA) + "/ { soc { strange@3000000 { compatible = \"strange\"; reg = <0 0x3000000 0 0x1000>;
        #address-cells = <1>; #size-cells = <0>; on-its-bus@50 { compatible = \"strange\"; reg = <0x50>; }; }; }; };";
    let found = told(&strange);
    assert!(
        found[0].starts_with("domain untrusted-domain may access strange@3000000 at 0x3000000"),
        "{found:#?}"
    );
    assert_eq!(found.len(), 1);
    let closed = strange.replace("allmem: allmem {", "strange: strange {
        compatible = \"opensbi,domain,memregion\"; base = <0x0 0x3000000>; order = <12>; }; allmem: allmem {");
    assert_eq!(
        told(&closed.replace("<&tuart 0x0>", "<&tuart 0x0>, <&strange 0x0>")),
        [""; 0]
    );
    // A region of registers and a driver's absence make it no safer.
    let by_name = closed.replace("order = <12>; }; allmem", "order = <12>; mmio; }; allmem");
    let by_name = by_name.replace("<&tuart 0x0>", "<&tuart 0x0>, <&strange 0x3f>");
    assert_eq!(told(&by_name), found);
    let disabled = strange.clone() + "&{/soc/strange@3000000} { status = \"disabled\"; };";
    assert_eq!(told(&disabled), found);
}

/// The registers of a disabled device work, and machine mode knows only the first of a kind.
#[test]
fn disabled_and_second_devices_are_found() {
    for (changed, name) in [
        (
            "&{/soc/virtio_mmio@10001000} { status = \"disabled\"; };",
            "virtio_mmio@10001000",
        ),
        (
            "&{/soc/pci@30000000} { status = \"disabled\"; };",
            "pci@30000000",
        ),
        (
            "&{/soc/rtc@101000} { status = \"disabled\"; };",
            "rtc@101000",
        ),
        (
            "&{/flash@20000000} { status = \"disabled\"; };",
            "flash@20000000",
        ),
        (
            "&{/poweroff} { status = \"disabled\"; }; &{/reboot} { status = \"disabled\"; };",
            "test@100000",
        ),
        (
            "/ { flash@24000000 { compatible = \"cfi-flash\"; reg = <0 0x1a000000 0 0x1000000>; bank-width = <4>; }; };",
            "flash@24000000",
        ),
    ] {
        let found = told(&(example(AIA) + changed));
        assert!(
            found
                .iter()
                .any(|one| one.contains(&format!("may access {name} "))),
            "{changed}: {found:#?}"
        );
    }
}

/// A domain that has all of a machine, with these properties.
fn lone(machine: &str, more: &str) -> String {
    format!(
        "{machine}\n/ {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";
        allmem: allmem {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x0>; order = <64>; }};
        end: end {{ compatible = \"opensbi,domain,memregion\"; base = <0x0 0x8f000000>; order = <24>; }};
        only: only {{ compatible = \"opensbi,domain,instance\";
            possible-harts = <&{{/cpus/cpu@0}} &{{/cpus/cpu@1}}>; {more} }}; }}; }};
        cpus {{ cpu@0 {{ opensbi-domain = <&only>; }}; cpu@1 {{ opensbi-domain = <&only>; }}; }}; }};"
    )
}

#[test]
fn a_lone_domain_needs_no_fence_but_machine_modes() {
    for machine in [PLIC, AIA] {
        let source = lone(machine, "regions = <&allmem 0x3f>;");
        assert_eq!(told(&source), [""; 0]);
        with(&source, |partition, facts| {
            assert!(partition.lone().is_some() && partition.master().is_none());
            let unseen: Vec<_> = unseen(partition, facts).collect();
            assert_eq!(unseen, []);
            let kept = KeptRanges::new(partition, facts.machine, &FIRMWARE).unwrap();
            let only = &partition.domains[0];
            let is_open = |start| kept.first_access(only, PhysRange::new(start, 4)).is_some();
            for start in [0x8000_0000, 0x8be0_0000, 0x200_0000, 0x1010_0000] {
                assert!(!is_open(start), "{start:#x}");
            }
            // It has what an OS without domains has.
            for start in [0x10_0000, 0x10_1000, 0x1000_1000, 0x2000_0000, 0x3000_0000] {
                assert!(is_open(start), "{start:#x}");
            }
        });
        let found = told(&lone(machine, "regions = <&allmem 0x9>;"));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(
            found[0].contains("permissions of 0x0 are not supported"),
            "{found:#?}"
        );
    }
}

const NEXT: PhysRange = PhysRange {
    start: 0x8020_0000,
    end: 0x8220_0000,
};
const TREE: u64 = 0x8fe0_0000;

/// The lone domain of this tree.
fn limited(source: &str) -> Domain {
    with(source, |partition, facts| {
        let node = partition.lone().unwrap();
        let machine = facts.machine;
        let memory = memory_of(node, &machine.memory).unwrap();
        let stage = LoadedStage {
            address: NEXT.start,
            argument: TREE,
            image: NEXT,
            tree: Some(PhysRange::new(TREE, 0x4000)),
        };
        let everything = PhysRange::new(0, 1 << PHYSICAL_ADDRESS_BITS);
        let mut domain = Domain {
            harts: HartSet::new(machine.harts.iter().map(|hart| hart.id)).unwrap(),
            memory: MemoryMap::new(&memory, &FIRMWARE).unwrap(),
            flash: [PhysRange::new(0x2000_0000, 0x200_0000)]
                .into_iter()
                .collect(),
            devices: [everything].into_iter().collect(),
            registers: ArrayVec::new(),
            foreign: None,
            next_stage: NextStage {
                address: NEXT.start,
                argument: TREE,
                tree: None,
            },
            rights: Rights::ALL,
        };
        domain.limit(node, &stage, &machine.memory, TREE).unwrap();
        domain
    })
}

#[test]
fn a_lone_domain_is_limited_to_its_node() {
    let whole = limited(&lone(
        AIA,
        "regions = <&allmem 0x3f>; system-reset-allowed;",
    ));
    assert_eq!(whole.foreign, None);
    assert_eq!(whole.flash.len(), 1);
    assert_eq!(
        (whole.rights.system_reset, whole.rights.system_suspend),
        (true, false)
    );
    assert_eq!(
        whole.devices[..],
        [PhysRange::new(0, 1 << PHYSICAL_ADDRESS_BITS)]
    );
    let part = lone(AIA, "regions = <&allmem 0x3f>, <&end 0x0>;")
        .replace("cpu@0 { opensbi-domain = <&only>; };", "");
    let part = limited(&part);
    let end = PhysRange::new(0x8f00_0000, 0x100_0000);
    assert_eq!(part.foreign.as_deref(), Some(&[end][..]));
    assert!(!part.memory.contains(end.start, 1));
    assert!(!part.devices.iter().any(|range| range.overlaps(&end)));
    assert_eq!(part.harts.ids().collect::<Vec<_>>(), [1]);
}
