//! The plan of a domain with any regions.

use std::sync::LazyLock;

use poorwill_devicetree::{Machine, MemoryRegion, Partition, Permissions};
use poorwill_domain::pmp::{MAX_ENTRIES, PHYSICAL_ADDRESS_BITS, Pmp, PmpPlan, Wanted};
use poorwill_domain::{Domain, KeptRanges, LoadedStage, Surroundings};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

use crate::access::access;

#[path = "../../../devicetree/tests/dtc/mod.rs"]
mod dtc;

const PAGE: u64 = 4096;

const PMP: Pmp = Pmp {
    entries: MAX_ENTRIES,
    granularity_bits: 2,
};

/// The firmware's memory.
const OWN: [PhysRange; 2] = [
    PhysRange {
        start: 0x8000_0000,
        end: 0x801c_0000,
    },
    PhysRange {
        start: 0x8be0_0000,
        end: 0x8c00_0000,
    },
];

/// A machine of QEMU with IMSICs, whose partition is replaced.
const MACHINE: &str = include_str!("../../../devicetree/tests/machines/virt-domains.dts");

/// Regions of any size, with any permissions, around machine mode's ranges too.
fn any_regions() -> impl Strategy<Value = Vec<MemoryRegion>> {
    let bits = prop::sample::select(vec![0_u32, 0x1b, 0x3f]);
    let near = prop::sample::select(vec![
        0_u64,
        0x10_0000,
        0x200_0000,
        0xc00_0000,
        0x1000_0000,
        0x2400_0000,
        0x2800_0000,
        0x3000_0000,
        0x8000_0000,
        0x8be0_0000,
        0xc000_0000,
    ]);
    let region = (12_u32..=64, near, 0_u64..1 << 20, bits, any::<bool>());
    let region = region.prop_map(|(order, near, offset, bits, is_mmio)| MemoryRegion {
        base: (near + offset * PAGE)
            .checked_shr(order)
            .map_or(0, |high| high << order),
        order,
        is_mmio,
        permissions: Permissions::from_bits(bits).unwrap(),
    });
    prop::collection::vec(region, 1..12)
}

proptest! {
    /// Whatever regions a domain has, its plan opens no byte of machine mode's, and nothing outside
    /// of the regions.
    #[test]
    fn no_region_opens_machine_modes_ranges(
        mut regions in any_regions(),
        is_lone in any::<bool>(),
        picks in prop::collection::vec((0_usize..64, any::<u64>()), 24),
    ) {
        static BLOB: LazyLock<Vec<u8>> = LazyLock::new(|| dtc::force(MACHINE));
        let machine = Machine::read(&BLOB).unwrap();
        let mut partition = Partition::read(&BLOB).unwrap().unwrap();
        regions.sort_by_key(|region| (u32::MAX - region.order, region.base));
        regions.dedup_by_key(|region| (region.order, region.base));
        partition.domains[1].regions = regions.into_iter().collect();
        if is_lone {
            partition.domains.remove(0);
            partition.domains[0].functions.clear();
        }
        let node = partition.domains.last().unwrap();
        let kept = KeptRanges::new(&partition, &machine, &OWN).unwrap();
        let around = Surroundings {
            memory: &machine.memory,
            holes: &OWN,
            kept: &kept,
            reserved: &[],
            tree: 0,
        };
        let stage = LoadedStage {
            address: 0x8020_0000,
            argument: 0,
            image: PhysRange::new(0x8020_0000, 0x20_0000),
            tree: None,
        };
        // A domain without memory, or whose next stage is outside of it, does not start.
        if let Ok(domain) = Domain::of_node(node, &stage, &around) {
            let wanted = Wanted {
                readable: &[],
                closed: kept.ranges(),
                memory: domain.memory.ranges(),
                devices: &domain.devices,
                registers: &domain.registers,
            };
            // Nor does one whose plan is too long, or contradicts itself.
            if let Ok(plan) = PmpPlan::new(&wanted, PMP) {
                let machine_modes = OWN.iter().chain(&machine.machine_only);
                let machine_modes: Vec<_> = machine_modes.chain(&machine.fw_cfg).collect();
                for (place, offset) in picks {
                    let range = machine_modes[place % machine_modes.len()];
                    let address = range.start + offset % range.length();
                    prop_assert_eq!(access(plan.entries(), address), 0, "{:#x}", address);
                    let anywhere = offset % (1 << PHYSICAL_ADDRESS_BITS);
                    let near = (offset % (1 << 33)) & !3;
                    for address in [anywhere & !3, near] {
                        let permissions = node.permissions_at(address);
                        let found = access(plan.entries(), address);
                        prop_assert!(found == 0 || permissions.opens(), "{address:#x}");
                    }
                }
            }
        }
    }
}
