//! The domains on their machine, as the checks see them.

use core::ops::RangeInclusive;

use arrayvec::ArrayVec;
use poorwill_devicetree::{
    DomainNode, Fdt, FunctionRange, MAX_DOMAINS, Machine, Partition, PciWiring,
};
use poorwill_memory::PhysRange;
use poorwill_pci::Function;
use poorwill_pci::placement::PlacedFunction;

use super::unfenced::Owner;
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

/// PCI functions of one owner.
pub(super) struct Functions<'a> {
    pub(super) owner: Owner,
    pub(super) all: &'a [PlacedFunction],
    pub(super) ranges: &'a [FunctionRange],
}

impl<'a> Functions<'a> {
    pub(super) fn of_domain(domain: &'a DomainNode) -> Self {
        Functions {
            owner: Owner::Domain(domain.name),
            all: &domain.functions,
            ranges: &domain.ranges,
        }
    }

    fn of_machine(partition: &'a Partition) -> Self {
        Functions {
            owner: Owner::MachineMode,
            all: &partition.functions,
            ranges: &partition.ranges,
        }
    }

    /// Those of each domain, then those of machine mode.
    pub(super) fn of(partition: &'a Partition) -> ArrayVec<Self, { MAX_DOMAINS + 1 }> {
        let domains = partition.domains.iter().map(Functions::of_domain);
        domains.chain([Functions::of_machine(partition)]).collect()
    }

    /// Returns whether a function is the owner's: by its entry, or below one of its bridges.
    pub(super) fn has(&self, function: Function) -> bool {
        self.is_listed(function) || self.has_bus(function.bus)
    }

    /// Returns whether a function has an entry of its own.
    pub(super) fn is_listed(&self, function: Function) -> bool {
        self.all.iter().any(|one| one.function == function)
    }

    /// Returns whether a bus lies below one of the owner's bridges.
    pub(super) fn has_bus(&self, bus: u8) -> bool {
        self.buses().any(|buses| buses.contains(&bus))
    }

    /// The buses below each of the owner's bridges.
    pub(super) fn buses(&self) -> impl Iterator<Item = RangeInclusive<u8>> {
        let bridges = self.all.iter().filter_map(|one| one.buses);
        bridges.map(|(first, last)| first..=last)
    }
}

/// The pairs of domains or owners, each pair once.
pub(super) fn pairs<T>(all: &[T]) -> impl Iterator<Item = (&T, &T)> {
    (all.iter().enumerate()).flat_map(move |(place, one)| {
        let others = all.iter().skip(place + 1);
        others.map(move |other| (one, other))
    })
}

/// The pairs of a domain and another one, in both orders.
pub(super) fn ordered_pairs<T>(domains: &[T]) -> impl Iterator<Item = (&T, &T)> {
    pairs(domains).flat_map(|(one, other)| [(one, other), (other, one)])
}
