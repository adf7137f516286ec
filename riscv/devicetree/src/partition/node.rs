//! A partition and its domains as typed values.

use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;
use poorwill_pci::Function;
use poorwill_pci::placement::{AddressKind, PlacedFunction, PlacedRange};

use super::limits::{
    MAX_DOMAIN_FUNCTIONS, MAX_DOMAINS, MAX_FUNCTION_RANGES, MAX_MACHINE_FUNCTIONS,
    MAX_MACHINE_RANGES, MAX_PARTITION_HARTS, MAX_REGION_DEVICES, MAX_REGIONS, MAX_SPANS,
};
use super::region::{MemoryRegion, Permissions, Span};
use crate::node::NodeName;

/// The domains of a machine.
///
/// Its value does not depend on the order of nodes and of lists in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The domains, in the order in which they wake.
    pub domains: ArrayVec<DomainNode, MAX_DOMAINS>,
    /// IDs of the harts that may boot the machine cold, ascending. Without a list in the tree each
    /// hart may, and this is empty.
    pub cold_boot_harts: ArrayVec<u64, MAX_PARTITION_HARTS>,
    /// Machine mode's own PCI functions, by their address: what the machine sleeps on. They are on
    /// bus 0, and no bridges.
    pub functions: ArrayVec<PlacedFunction, MAX_MACHINE_FUNCTIONS>,
    /// Addresses that machine mode's functions decode, by function and register.
    pub ranges: ArrayVec<FunctionRange, MAX_MACHINE_RANGES>,
}

/// A domain, as the tree describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainNode {
    /// Its node's name.
    pub name: NodeName,
    /// IDs of its harts, ascending; at least one.
    pub harts: ArrayVec<u64, MAX_PARTITION_HARTS>,
    /// ID of the hart that starts its next stage; one of its harts.
    pub boot_hart: u64,
    /// Physical address of its next stage; `None`: the previous boot stage's choice.
    pub next_address: Option<u64>,
    /// Second argument of its next stage, mostly its device tree's address; `None`: the previous
    /// boot stage's choice.
    pub next_argument: Option<u64>,
    /// Privilege mode of its next stage.
    pub next_mode: NextMode,
    /// Its memory regions, the largest first, then by address. No two are equal.
    pub regions: ArrayVec<MemoryRegion, MAX_REGIONS>,
    /// Phandles of the devices that its regions name, ascending.
    pub devices: ArrayVec<u32, MAX_REGION_DEVICES>,
    /// Whether it may put the machine to sleep. This is true of at most one domain, the master.
    pub may_suspend: bool,
    /// Whether it may reset the machine, or switch it off.
    pub may_reset: bool,
    /// Its place in the order of waking. No two domains have the same; the lowest wakes first.
    pub wake_order: u32,
    /// Its PCI functions, by their address. All functions on a bridge's buses are the domain's.
    pub functions: ArrayVec<PlacedFunction, MAX_DOMAIN_FUNCTIONS>,
    /// Addresses that its functions decode, by function and register.
    pub ranges: ArrayVec<FunctionRange, MAX_FUNCTION_RANGES>,
}

/// Privilege mode of a next stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextMode {
    /// S-mode.
    #[default]
    Supervisor,
    /// U-mode: a program without an OS, which can make no SBI call.
    User,
}

/// Addresses on the bus that a function decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRange {
    /// The function.
    pub function: Function,
    /// Offset in configuration space of the register that holds the address: a BAR, the expansion
    /// ROM's, or a bridge's window.
    pub register: u8,
    /// The kind of address.
    pub kind: AddressKind,
    /// Whether it may be prefetched.
    pub is_prefetchable: bool,
    /// The addresses on the bus; not empty.
    pub range: PhysRange,
}

impl From<&FunctionRange> for PlacedRange {
    fn from(range: &FunctionRange) -> Self {
        PlacedRange {
            function: range.function,
            register: range.register,
            kind: range.kind,
            range: range.range,
        }
    }
}

impl Partition {
    /// The domain of the hart with this ID.
    #[must_use]
    pub fn domain_of(&self, hart: u64) -> Option<&DomainNode> {
        let mut domains = self.domains.iter();
        domains.find(|domain| domain.harts.binary_search(&hart).is_ok())
    }

    /// The domain of a machine that need not be fenced: it is the only one. With PCI functions, its
    /// own or machine mode's, it is treated as one of several, since machine mode places them.
    #[must_use]
    pub fn lone(&self) -> Option<&DomainNode> {
        match &self.domains[..] {
            [only] if only.functions.is_empty() && self.functions.is_empty() => Some(only),
            _ => None,
        }
    }

    /// The domain that puts the machine to sleep; `None`: no domain may.
    #[must_use]
    pub fn master(&self) -> Option<&DomainNode> {
        self.domains.iter().find(|domain| domain.may_suspend)
    }

    /// Returns whether the hart with this ID may boot the machine cold.
    #[must_use]
    pub fn may_boot_cold(&self, hart: u64) -> bool {
        self.cold_boot_harts.is_empty() || self.cold_boot_harts.binary_search(&hart).is_ok()
    }
}

impl DomainNode {
    /// The region that decides about an address: the smallest one that contains it.
    #[must_use]
    pub fn region_at(&self, address: u64) -> Option<&MemoryRegion> {
        let regions = self.regions.iter().rev();
        let mut there = regions.filter(|region| region.contains(address));
        there.next()
    }

    /// The domain's permissions at an address.
    #[must_use]
    pub fn permissions_at(&self, address: u64) -> Permissions {
        let region = self.region_at(address);
        region.map_or(Permissions::NONE, |region| region.permissions)
    }

    /// All addresses that the domain may access, ascending. Neighbours differ in their permissions
    /// or in their kind.
    #[must_use]
    pub fn spans(&self) -> ArrayVec<Span, MAX_SPANS> {
        let mut edges = ArrayVec::<u64, MAX_SPANS>::new();
        for range in self.regions.iter().map(MemoryRegion::range) {
            edges.extend([range.start, range.end]);
        }
        edges.sort_unstable();
        let mut spans = ArrayVec::<Span, MAX_SPANS>::new();
        for pair in edges.windows(2).filter(|pair| pair[0] < pair[1]) {
            let Some(region) = self.region_at(pair[0]) else {
                continue;
            };
            if !region.permissions.opens() {
                continue;
            }
            let next = Span {
                range: PhysRange {
                    start: pair[0],
                    end: pair[1],
                },
                permissions: region.permissions,
                is_mmio: region.is_mmio,
            };
            match spans.last_mut() {
                Some(last) if last.is_continued_by(&next) => last.range.end = next.range.end,
                _ => spans.push(next),
            }
        }
        spans
    }
}
