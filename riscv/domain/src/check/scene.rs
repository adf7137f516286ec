//! The domains on their machine, as the checks see them.

use core::borrow::Borrow;

use poorwill_devicetree::{DomainNode, Fdt, Machine, Partition, PciWiring};
use poorwill_memory::PhysRange;
use poorwill_pci::Function;

use crate::kept::KeptRanges;
use crate::pmp::Pmp;

/// The facts about a machine that decide whether its domains can be fenced.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The machine, from the same tree as the partition.
    pub machine: &'a Machine,
    /// That tree, for devices of unknown kinds; `None`: they are not looked for.
    pub tree: Option<Fdt<'a>>,
    /// Connections of the PCI functions, from the same tree; `None` without a host bridge.
    pub wiring: Option<PciWiring<'a>>,
    /// Memory of the firmware. It is closed to each domain, and takes PMP entries.
    pub firmware: &'a [PhysRange],
    /// The PMP of each hart that runs a domain; `None`: not known yet.
    pub pmp: Option<Pmp>,
    /// The NVMe controllers with a sleep area; `None`: not known yet.
    pub sleep_disks: Option<&'a [Function]>,
}

/// The domains on their machine.
pub(super) struct Scene<'a> {
    pub(super) partition: &'a Partition,
    pub(super) facts: &'a Facts<'a>,
    pub(super) kept: &'a KeptRanges,
}

/// The pairs of domains, each pair once.
pub(super) fn pairs<D: Borrow<DomainNode>>(
    domains: &[D],
) -> impl Iterator<Item = (&DomainNode, &DomainNode)> {
    (domains.iter().enumerate()).flat_map(move |(place, domain)| {
        let others = domains.iter().skip(place + 1);
        others.map(move |other| (domain.borrow(), other.borrow()))
    })
}

/// The pairs of a domain and another one, in both orders.
pub(super) fn ordered_pairs<D: Borrow<DomainNode>>(
    domains: &[D],
) -> impl Iterator<Item = (&DomainNode, &DomainNode)> {
    pairs(domains).flat_map(|(one, other)| [(one, other), (other, one)])
}

/// Returns whether a PCI function belongs to the domain: by its entry, or below one of its bridges.
pub(super) fn has_function(domain: &DomainNode, function: Function) -> bool {
    domain.functions.iter().any(|one| {
        let is_below = |(first, last)| (first..=last).contains(&function.bus);
        one.function == function || one.buses.is_some_and(is_below)
    })
}
