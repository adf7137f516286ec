//! Domains of a partition, from a machine's tree.

use poorwill_devicetree::{DomainNode, Machine, NodeName, Partition, SLACK};
use poorwill_domain::{
    ClaimError, Domain, DomainError, FwDynamic, KeptRanges, LoadedStage, Surroundings, TREE_GROWTH,
    memory_of,
};
use poorwill_memory::{MemoryMapError, PhysRange};

#[path = "../../devicetree/tests/dtc/mod.rs"]
mod dtc;

use dtc::force as compile;

const MACHINE: &str = include_str!("../../devicetree/tests/machines/virt-domains.dts");

const MIB: u64 = 1 << 20;

fn read(source: &str) -> (Machine, Partition) {
    let blob = compile(source);
    let partition = Partition::read(&blob).expect("a good one").expect("one");
    (Machine::read(&blob).expect("a machine"), partition)
}

fn domain<'a>(partition: &'a Partition, name: &str) -> &'a DomainNode {
    let mut domains = partition.domains.iter();
    domains.find(|domain| &*domain.name == name).expect(name)
}

fn name(text: &str) -> NodeName {
    NodeName::from(text).unwrap()
}

/// The previous stage's choice for a domain that makes none.
const PREVIOUS: FwDynamic = FwDynamic {
    address: 0x8040_0000,
    tree: PhysRange {
        start: 0x8fe0_0000,
        end: 0x8fe0_4000,
    },
    boot_hart: None,
};

/// There is a tree of 4096 bytes at 0x87f00000, and zeros elsewhere.
fn load(address: u64, into: &mut [u8]) {
    into.fill(0);
    if address == 0x87f0_0000 {
        into[..8].copy_from_slice(&[0xd0, 0x0d, 0xfe, 0xed, 0, 0, 0x10, 0]);
    }
}

fn stage(node: &DomainNode, machine: &Machine) -> LoadedStage {
    LoadedStage::find(node, &PREVIOUS, &machine.memory, load)
}

/// The domain of a node, without `holes` in memory. `reserved` is in use.
fn made(
    (machine, partition): &(Machine, Partition),
    of: &str,
    holes: &[PhysRange],
    reserved: &[PhysRange],
) -> Result<Domain, DomainError> {
    let kept = KeptRanges::new(partition, machine, holes).unwrap();
    let node = domain(partition, of);
    let around = Surroundings {
        memory: &machine.memory,
        holes,
        kept: &kept,
        reserved,
        tree: PREVIOUS.tree.start,
    };
    Domain::of_node(node, &stage(node, machine), &around)
}

#[test]
fn a_next_stage_is_found_as_its_node_says() {
    let (machine, partition) = read(MACHINE);
    let linux = stage(domain(&partition, "linux"), &machine);
    assert_eq!((linux.address, linux.argument), (0x8020_0000, 0x87f0_0000));
    let tree = PhysRange::new(0x87f0_0000, 4096 + TREE_GROWTH);
    assert_eq!(linux.tree, Some(tree));
    assert_eq!(linux.taken().collect::<Vec<_>>(), [linux.image, tree]);
    // A tree that ends outside memory does not count.
    let mut cut = machine.clone();
    cut.memory[0].end = 0x87f0_0800;
    assert_eq!(stage(domain(&partition, "linux"), &cut).tree, None);
    // Address 0 is not memory, so nothing is read there.
    let critical = stage(domain(&partition, "critical"), &machine);
    assert_eq!((critical.argument, critical.tree), (0, None));
    assert_eq!(critical.taken().count(), 1);
    let source = MACHINE.replace("next-addr = <0x0 0x80200000>;", "");
    let source = source.replace("next-arg1 = <0x0 0x87f00000>;", "");
    let (machine, partition) = read(&source);
    let linux = stage(domain(&partition, "linux"), &machine);
    assert_eq!(
        (linux.address, linux.argument),
        (PREVIOUS.address, PREVIOUS.tree.start)
    );
}

#[test]
fn a_domain_has_what_its_regions_open_and_no_more() {
    let (machine, partition) = read(MACHINE);
    let node = domain(&partition, "linux");
    let memory = memory_of(node, &machine.memory).unwrap();
    // Without the firmware's region, which is the smaller one there.
    assert_eq!(
        memory[..],
        [PhysRange {
            start: 0x8020_0000,
            end: 0xc000_0000
        }]
    );
    let second = PhysRange::new(0xb000_0000, 2 * MIB);
    let linux = made(&(machine, partition), "linux", &[second], &[]).unwrap();
    assert_eq!(
        linux.memory.ranges(),
        [
            PhysRange {
                start: 0x8020_0000,
                end: second.start
            },
            PhysRange {
                start: second.end,
                end: 0xc000_0000
            },
        ]
    );
    let registers: Vec<_> = linux.registers.iter().map(|range| range.start).collect();
    assert_eq!(
        registers,
        [
            0xd00_0000,
            0x1000_0000,
            0x2800_0000,
            0x3010_0000,
            0x5000_0000
        ]
    );
    assert!(linux.devices.is_empty() && linux.flash.is_empty());
    assert!(linux.rights.system_reset && !linux.rights.system_suspend);
    assert_eq!(linux.harts.ids().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(linux.hart(2), Err(ClaimError::Hart(2)));
    assert!(linux.executable(0xc000_0000).is_err() && linux.executable(second.start).is_err());
    let tree = linux.next_stage.tree.unwrap();
    assert_eq!(tree.blob, PhysRange::new(0x87f0_0000, 4096));
    let with_slack = PhysRange::new(tree.loaded.start, tree.loaded.length() + SLACK);
    assert_eq!(tree.handed_on, Some(with_slack));
}

#[test]
fn a_tree_moves_from_what_is_in_use() {
    let disk = PhysRange::new(0x87f0_2000, 16 * MIB);
    let linux = made(&read(MACHINE), "linux", &[], &[disk]).unwrap();
    let tree = linux.next_stage.tree.unwrap();
    let place = tree.handed_on.unwrap();
    assert!(!place.overlaps(&disk) && !place.overlaps(&tree.blob));
    assert!(linux.memory.contains(place.start, place.length()));
}

#[test]
fn what_no_domain_can_have_is_refused_by_name() {
    let refused = |from: &str, to: &str, of: &str| {
        assert!(MACHINE.contains(from), "{from}");
        made(&read(&MACHINE.replace(from, to)), of, &[], &[]).unwrap_err()
    };
    let critical = name("critical");
    assert_eq!(
        refused("<&critical_ram 0x3f>,", "", "critical"),
        DomainError::Memory {
            domain: critical,
            error: MemoryMapError::Empty
        }
    );
    // The other domain's memory.
    assert_eq!(
        refused(
            "next-addr = <0x0 0xc0000000>",
            "next-addr = <0x0 0x80200000>",
            "critical"
        ),
        DomainError::NextStage {
            domain: critical,
            address: 0x8020_0000
        }
    );
}
