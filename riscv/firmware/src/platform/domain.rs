//! The domains of the machine: one for now, which has all that machine mode does
//! not keep and may ask for everything.

use poorwill_devicetree::{Machine, tree_place};
use poorwill_domain::pmp::PHYSICAL_ADDRESS_BITS;
use poorwill_domain::{Domain, HartSet, HartSetError, NextStage, Rights, TREE_GROWTH};
use poorwill_memory::{MemoryMap, PhysRange};
use spin::Once;

static DOMAIN: Once<Domain> = Once::new();

/// Makes the one domain: all harts, `memory`, all devices, and flash but for the
/// `vault`. `taken` is where its next
/// stage and its device tree lie.
///
/// # Errors
///
/// [`HartSetError`].
// A function of its own: a domain's copies are not to lie on the deep stack for as
// long as the machine starts.
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
    // Of a tree in ROM nothing is memory.
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

/// The domain that the hart of this ID belongs to.
///
/// # Panics
///
/// Before the machine was set up, which no code that is reached does.
pub(crate) fn of(_hart: u64) -> &'static Domain {
    // All harts are the one domain's.
    DOMAIN
        .get()
        .expect("the domain is set up before any hart runs for it")
}
