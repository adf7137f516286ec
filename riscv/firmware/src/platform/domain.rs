//! The domains of the machine. For now there is one, which has all resources that machine mode does
//! not keep, and all rights.

use poorwill_devicetree::{Machine, tree_place};
use poorwill_domain::pmp::PHYSICAL_ADDRESS_BITS;
use poorwill_domain::{Domain, HartSet, HartSetError, NextStage, Rights, TREE_GROWTH};
use poorwill_memory::{MemoryMap, PhysRange};
use spin::Once;

static DOMAIN: Once<Domain> = Once::new();

/// Makes the domain: all harts, `memory`, all devices, and flash without the `vault`. `next` and
/// `tree` are the memory of its next stage and of its device tree.
///
/// # Errors
///
/// [`HartSetError`].
// Not inlined: copies of a domain must not stay on the deep stack during the start.
#[inline(never)]
pub(super) fn start(
    machine: &Machine,
    memory: &MemoryMap,
    [next, tree]: [PhysRange; 2],
    vault: Option<PhysRange>,
) -> Result<&'static Domain, HartSetError> {
    let harts = HartSet::new(machine.harts.iter().map(|hart| hart.id))?;
    let blob = PhysRange::new(tree.start, tree.length().saturating_sub(TREE_GROWTH));
    let reserved = machine.reserved.iter().map(|reserved| reserved.range);
    let handed_on = tree_place(memory.ranges(), reserved, next, blob, TREE_GROWTH);
    // A tree in ROM does not lie in memory.
    let loaded = memory
        .ranges()
        .iter()
        .find(|range| range.contains(tree.start));
    let end = loaded.map_or(tree.start, |range| range.end.min(tree.end));
    Ok(DOMAIN.call_once(|| Domain {
        harts,
        memory: memory.clone(),
        flash: (machine.flash.iter().flat_map(|flash| flash.of_os(vault))).collect(),
        devices: [PhysRange::new(0, 1 << PHYSICAL_ADDRESS_BITS)]
            .into_iter()
            .collect(),
        next_stage: NextStage {
            address: next.start,
            tree: PhysRange { end, ..tree },
            handed_on,
        },
        rights: Rights::ALL,
    }))
}

/// The domain of the hart with this ID.
///
/// # Panics
///
/// Before the platform is set up, when no code calls this.
pub(crate) fn of(_hart: u64) -> &'static Domain {
    // All harts belong to the one domain.
    DOMAIN
        .get()
        .expect("the domain is set up before any hart runs for it")
}
