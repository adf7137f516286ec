//! The domains of the machine. Without a partition there is one, which has all resources that
//! machine mode does not keep, and all rights.

use core::ops::Deref;

use arrayvec::ArrayVec;
use poorwill_devicetree::{DomainNode, MAX_DOMAINS, Machine, NodeName, Uart, tree_place};
use poorwill_domain::pmp::{PHYSICAL_ADDRESS_BITS, PmpPlan};
use poorwill_domain::{
    Domain, DomainCell, HartSet, HartSetError, NextStage, Rights, StageTree, TREE_GROWTH,
};
use poorwill_memory::{MemoryMap, PhysRange};
use spin::{Mutex, Once};

use super::console::Lines;
use crate::remote_fence::Fences;

/// A domain, with the state that the firmware needs while it runs.
#[derive(Debug)]
pub(crate) struct LiveDomain {
    /// Its place in the order in which domains wake.
    pub(crate) index: usize,
    /// Empty without a partition.
    pub(crate) name: NodeName,
    domain: Domain,
    pub(crate) state: DomainCell,
    /// ID of the hart on which its next stage starts, in a partition.
    pub(crate) boot_hart: u64,
    /// It has the console's UART.
    pub(crate) has_console: bool,
    /// Text that waits for the console, of a domain without the UART.
    pub(crate) lines: Mutex<Lines>,
    /// The fences that its harts request of each other.
    pub(crate) fences: Fences,
    /// The PMP plan of its harts; unset on a machine that cannot be protected.
    pub(super) plan: Once<PmpPlan>,
}

impl LiveDomain {
    fn new(
        index: usize,
        name: NodeName,
        boot_hart: u64,
        domain: Domain,
        has_console: bool,
    ) -> Self {
        LiveDomain {
            index,
            name,
            boot_hart,
            domain,
            has_console,
            state: DomainCell::new(),
            lines: Mutex::new(Lines::new()),
            fences: Fences::new(),
            plan: Once::new(),
        }
    }
}

impl LiveDomain {
    /// Registers that the domain's OS runs from here on: the caller starts it.
    ///
    /// # Panics
    ///
    /// If the domain is neither starting nor waking.
    pub(crate) fn run(&self) {
        (self.state.run()).expect("a domain starts once, and after each sleep");
    }
}

impl Deref for LiveDomain {
    type Target = Domain;

    fn deref(&self) -> &Domain {
        &self.domain
    }
}

/// The domains, from the first place on. Each is made in its place, as copies take time.
static DOMAINS: [Once<LiveDomain>; MAX_DOMAINS] = [const { Once::new() }; MAX_DOMAINS];

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
) -> Result<&'static LiveDomain, HartSetError> {
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
    let domain = || Domain {
        harts,
        memory: memory.clone(),
        flash: (machine.flash.iter().flat_map(|flash| flash.of_os(vault))).collect(),
        devices: [PhysRange::new(0, 1 << PHYSICAL_ADDRESS_BITS)]
            .into_iter()
            .collect(),
        registers: ArrayVec::new(),
        next_stage: NextStage {
            address: next.start,
            argument: tree.start,
            tree: Some(StageTree {
                blob,
                loaded: PhysRange { end, ..tree },
                handed_on,
            }),
        },
        rights: Rights::ALL,
    };
    Ok(DOMAINS[0].call_once(|| LiveDomain::new(0, NodeName::new(), 0, domain(), true)))
}

/// Adds a domain of a partition; `console` is the machine's.
///
/// # Panics
///
/// After [`MAX_DOMAINS`] domains; a partition has no more.
pub(super) fn add(node: &DomainNode, domain: Domain, console: Option<Uart>) {
    let mut registers = domain.registers.iter().chain(&domain.devices);
    let has_console = console.is_some_and(|uart| registers.any(|range| range.contains(uart.base)));
    let index = all().count();
    DOMAINS[index]
        .call_once(|| LiveDomain::new(index, node.name, node.boot_hart, domain, has_console));
}

/// Returns whether the machine has a partition.
pub(crate) fn is_partitioned() -> bool {
    all().any(|domain| !domain.name.is_empty())
}

/// All domains; none before the platform is set up.
pub(crate) fn all() -> impl Iterator<Item = &'static LiveDomain> + Clone {
    DOMAINS.iter().map_while(Once::get)
}

/// The domain of the hart with this ID.
///
/// # Panics
///
/// Before the platform is set up, and for a hart of no domain: no code calls it then.
pub(crate) fn of(hart: u64) -> &'static LiveDomain {
    all()
        .find(|domain| domain.harts.contains(hart))
        .expect("each hart has a domain, and they are set up before any hart runs for one")
}
