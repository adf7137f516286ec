//! Whether the domains of a partition can be fenced from each other on their machine. The firmware
//! asks before it starts a domain, and the host command `poorwill domains check` asks of a tree.
//!
//! Each finding has a name and a remedy ([`Unfenced`]). Facts that neither the tree nor the caller
//! states are named, too ([`Unseen`]): the firmware looks at the bus for them.

mod controllers;
mod dma;
mod intx;
mod map;
mod plan;
mod unfenced;

use poorwill_devicetree::{DomainNode, Machine, Partition, PciWiring};
use poorwill_medium::pci::Function;
use poorwill_memory::PhysRange;

use crate::pmp::Pmp;

pub use intx::{IntxLine, intx_line};
pub(crate) use plan::Grant;
pub use plan::entries_of;
pub use unfenced::{Kept, Unfenced, Unseen};

/// The facts about a machine that decide whether its domains can be fenced.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The machine, from the same tree as the partition.
    pub machine: &'a Machine,
    /// Connections of the PCI functions, from the same tree; `None` without a host bridge.
    pub wiring: Option<PciWiring<'a>>,
    /// Memory of the firmware that no domain's regions may open.
    pub firmware: &'a [PhysRange],
    /// Addresses within a domain's regions that its PMP plan closes, for example the firmware's
    /// second range. They take entries.
    pub closed: &'a [PhysRange],
    /// The PMP of each hart that runs a domain; `None`: not known yet.
    pub pmp: Option<Pmp>,
    /// The NVMe controllers with a sleep area; `None`: not known yet.
    pub sleep_disks: Option<&'a [Function]>,
}

/// Checks that all domains of a partition can be fenced from each other.
///
/// # Errors
///
/// The first finding. [`findings`] has the others.
pub fn check(partition: &Partition, facts: &Facts<'_>) -> Result<(), Unfenced> {
    let mut first = None;
    findings(partition, facts, &mut |finding| {
        first.get_or_insert(finding);
    });
    first.map_or(Ok(()), Err)
}

/// Calls `tell` for each reason why domains cannot be fenced from each other.
pub fn findings(partition: &Partition, facts: &Facts<'_>, tell: &mut dyn FnMut(Unfenced)) {
    map::overlaps(partition, tell);
    map::kept(partition, facts, tell);
    controllers::look(partition, facts.machine, tell);
    dma::look(partition, facts, tell);
    intx::shared_sources(partition, facts, tell);
    plan::permissions(partition, tell);
    if let Some(pmp) = facts.pmp {
        plan::look(partition, facts.closed, pmp, tell);
    }
}

/// The facts that decide, too, but that only the bus or the caller shows.
pub fn unseen(partition: &Partition, facts: &Facts<'_>) -> impl Iterator<Item = Unseen> {
    let has_functions = (partition.domains.iter()).any(|domain| !domain.functions.is_empty());
    let on_the_bus = [
        Unseen::RootPorts,
        Unseen::VirtioPlatform,
        Unseen::InterruptPins,
    ];
    let on_the_bus = on_the_bus.into_iter().filter(move |_| has_functions);
    let pmp = facts.pmp.is_none().then_some(Unseen::Pmp);
    let disks = facts.sleep_disks.is_none().then_some(Unseen::SleepDisks);
    let bridges = dma::has_open_bridge(partition).then_some(Unseen::BehindBridges);
    on_the_bus.chain(bridges).chain(pmp).chain(disks)
}

/// The pairs of domains, each pair once.
fn pairs(partition: &Partition) -> impl Iterator<Item = (&DomainNode, &DomainNode)> {
    let domains = &partition.domains;
    (domains.iter().enumerate()).flat_map(move |(place, domain)| {
        let others = domains.iter().skip(place + 1);
        others.map(move |other| (domain, other))
    })
}

/// The pairs of a domain and another one, in both orders.
fn ordered_pairs(partition: &Partition) -> impl Iterator<Item = (&DomainNode, &DomainNode)> {
    pairs(partition).flat_map(|(one, other)| [(one, other), (other, one)])
}

/// Returns whether a PCI function belongs to the domain: by its entry, or below one of its bridges.
fn has_function(domain: &DomainNode, function: Function) -> bool {
    domain.functions.iter().any(|one| {
        let is_below = |(first, last)| (first..=last).contains(&function.bus);
        one.function == function || one.buses.is_some_and(is_below)
    })
}
