//! A machine's partition: the domains that `/chosen` describes (docs/domains.md has the bindings).
//!
//! A tree without such a description costs a look at the children of `/chosen`, and nothing of
//! [`Machine`](crate::Machine) grows for it.

mod configs;
mod cpu;
mod digest;
mod error;
mod function;
mod property;
mod read;
mod region;

use arrayvec::ArrayVec;
use poorwill_pci::placement::PlacedFunction;

use crate::node::NodeName;

pub(crate) use configs::{CONFIG, described};

pub use digest::identity_with;
pub use error::{FunctionFault, PartitionError, PermissionFault};
pub use function::FunctionRange;
pub use region::{MAX_SPANS, MemoryRegion, Permissions, Span};

/// Maximum number of domains of a machine.
pub const MAX_DOMAINS: usize = 8;

/// Maximum number of CPU nodes of a machine with a partition.
pub const MAX_PARTITION_HARTS: usize = 64;

/// Maximum number of memory region nodes of a machine.
pub const MAX_REGION_NODES: usize = 64;

/// Maximum number of memory regions of a domain.
pub const MAX_REGIONS: usize = 16;

/// Maximum number of devices that the regions of a domain name.
pub const MAX_REGION_DEVICES: usize = 32;

/// Maximum number of PCI functions of a domain.
pub const MAX_DOMAIN_FUNCTIONS: usize = 16;

/// Maximum number of address ranges of a domain's PCI functions.
pub const MAX_FUNCTION_RANGES: usize = 24;

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

impl Partition {
    /// The domain of the hart with this ID.
    #[must_use]
    pub fn domain_of(&self, hart: u64) -> Option<&DomainNode> {
        let mut domains = self.domains.iter();
        domains.find(|domain| domain.harts.binary_search(&hart).is_ok())
    }

    /// The domain of a machine that need not be fenced: it is the only one. With PCI functions it is
    /// treated as one of several, since machine mode places them.
    #[must_use]
    pub fn lone(&self) -> Option<&DomainNode> {
        match &self.domains[..] {
            [only] if only.functions.is_empty() => Some(only),
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
