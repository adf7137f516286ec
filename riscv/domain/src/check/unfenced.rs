use core::fmt;

use poorwill_devicetree::NodeName;
use poorwill_pci::Function;
use thiserror::Error;

use crate::pmp::{PlanError, TooManyRanges};

/// Who has PCI functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The domain with this name.
    Domain(NodeName),
    /// Machine mode, which sleeps on them.
    MachineMode,
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Domain(name) => write!(out, "domain {name}"),
            Owner::MachineMode => out.write_str("machine mode"),
        }
    }
}

/// Why domains cannot be fenced from each other.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unfenced {
    #[error(
        "domains {domain} and {other} may both access {start:#x} to {end:#x}; \
         give the addresses to one of them"
    )]
    Overlap {
        domain: NodeName,
        other: NodeName,
        start: u64,
        /// The first address after the overlap.
        end: u64,
    },
    #[error("a PLIC at {base:#x}: domains need an APLIC with IMSICs for each")]
    Plic { base: u64 },
    #[error("the APLIC at {base:#x} sends no messages to an IMSIC node; name its `msi-parent`")]
    DirectAplic { base: u64 },
    #[error("hart {hart} of domain {domain} has no S-level IMSIC file; domains need IMSICs")]
    NoImsic { domain: NodeName, hart: u64 },
    #[error(
        "the IMSIC node at {base:#x} joins groups of harts, so each APLIC reaches all groups; \
         describe a node for each domain, without `riscv,group-index-bits`"
    )]
    JointImsic { base: u64 },
    #[error(
        "the IMSIC node at {base:#x} has harts of domains {domain} and {other}; \
         describe a node for each domain"
    )]
    SharedImsic {
        base: u64,
        domain: NodeName,
        other: NodeName,
    },
    #[error(
        "domain {domain} has the APLIC at {base:#x}, which delivers to harts of domain {other}; \
         set its `msi-parent` to the domain's own IMSIC node"
    )]
    ForeignAplic {
        base: u64,
        domain: NodeName,
        other: NodeName,
    },
    #[error(
        "domain {domain} may write the interrupt files of hart {hart} at {start:#x}, \
         which is of another domain; leave the addresses out"
    )]
    ForeignFile {
        domain: NodeName,
        hart: u64,
        start: u64,
    },
    #[error(
        "the interrupt files of domains {domain} and {other} at {file:#x} and {other_file:#x} are \
         less than 64 pages apart, so an APLIC's guest index may reach over; move one node"
    )]
    NearImsic {
        domain: NodeName,
        other: NodeName,
        file: u64,
        other_file: u64,
    },
    #[error(
        "domain {domain} has the virtio-mmio device at {base:#x}, whose DMA no IOMMU checks; \
         use virtio-pci"
    )]
    VirtioMmio { domain: NodeName, base: u64 },
    #[error(
        "domain {domain} may access {node} at {start:#x}, which is not known to be harmless: it may \
         reach memory, or interrupt, reset or stop others, even if disabled; close the addresses by a \
         region with permission 0"
    )]
    UnknownDevice {
        domain: NodeName,
        node: NodeName,
        start: u64,
    },
    #[error("{0} has PCI functions, but the machine has no PCI host bridge with ECAM")]
    NoHost(Owner),
    #[error(
        "{0} has PCI functions, and the machine several PCI host bridges: \
         their functions cannot be told apart"
    )]
    SeveralHosts(Owner),
    #[error(
        "function {function} of {owner} reaches memory without an IOMMU; \
         add an IOMMU to `iommu-map`, or take the function away"
    )]
    NoIommu { owner: Owner, function: Function },
    #[error(
        "`iommu-map` gives function {function} of {owner} the device ID {device:#x}, which \
         is not its routing ID {routing_id:#x}; map each function to its routing ID"
    )]
    DeviceId {
        owner: Owner,
        function: Function,
        device: u32,
        routing_id: u32,
    },
    #[error("function {function} belongs to {owner} and {other}; keep one")]
    SharedFunction {
        function: Function,
        owner: Owner,
        other: Owner,
    },
    #[error("bus {bus} lies below bridges of {owner} and {other}; renumber one")]
    SharedBus { bus: u8, owner: Owner, other: Owner },
    #[error(
        "domain {domain} may access the configuration space of bus {bus}, \
         which is below none of its bridges; leave the addresses out"
    )]
    Configuration { domain: NodeName, bus: u8 },
    #[error(
        "domain {domain} may access {start:#x}, where function {function} of {owner} \
         decodes addresses; leave them out"
    )]
    ForeignRange {
        domain: NodeName,
        owner: Owner,
        function: Function,
        start: u64,
    },
    #[error("functions {function} and {other} both decode {start:#x}; move one")]
    SharedRange {
        function: Function,
        other: Function,
        start: u64,
    },
    #[error(
        "function {function} of {owner}: register {register:#x} cannot hold {start:#x} to \
         {end:#x}; align the range, or move it below 2^32"
    )]
    Unholdable {
        owner: Owner,
        function: Function,
        register: u8,
        start: u64,
        /// The first address after the range.
        end: u64,
    },
    #[error(
        "function {function} of {owner}: no window of the PCI host bridge reaches \
         {start:#x}; move the range"
    )]
    Unreachable {
        owner: Owner,
        function: Function,
        start: u64,
    },
    #[error(
        "INTx of functions {function} (domain {domain}) and {other_function} (domain {other}) \
         raise source {source_number}; move one to another slot"
    )]
    SharedIntx {
        domain: NodeName,
        function: Function,
        other: NodeName,
        other_function: Function,
        source_number: u32,
    },
    #[error(
        "domain {domain} has function {function}, a disk with a sleep area, and could forge \
         images; use a disk of no domain"
    )]
    SleepDisk {
        domain: NodeName,
        function: Function,
    },
    #[error("machine mode's ranges: {0}")]
    TooManyKept(TooManyRanges),
    #[error("domain {domain}: {error}")]
    Plan { domain: NodeName, error: PlanError },
    #[error(
        "domain {domain}: the permissions of {start:#x} are not supported; use 0x3f for memory, \
         and 0x1b or 0x3f for registers"
    )]
    Permissions { domain: NodeName, start: u64 },
}

impl Unfenced {
    /// A short name of the reason, which stays the same in later versions.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Unfenced::Overlap { .. } => "overlap",
            Unfenced::Plic { .. } => "plic",
            Unfenced::DirectAplic { .. } => "direct-aplic",
            Unfenced::NoImsic { .. } => "no-imsic",
            Unfenced::JointImsic { .. } => "joint-imsic",
            Unfenced::SharedImsic { .. } => "shared-imsic",
            Unfenced::ForeignAplic { .. } => "foreign-aplic",
            Unfenced::ForeignFile { .. } => "foreign-file",
            Unfenced::NearImsic { .. } => "near-imsic",
            Unfenced::VirtioMmio { .. } => "virtio-mmio",
            Unfenced::UnknownDevice { .. } => "unknown-device",
            Unfenced::NoHost(_) => "no-host",
            Unfenced::SeveralHosts(_) => "several-hosts",
            Unfenced::NoIommu { .. } => "no-iommu",
            Unfenced::DeviceId { .. } => "device-id",
            Unfenced::SharedFunction { .. } => "shared-function",
            Unfenced::SharedBus { .. } => "shared-bus",
            Unfenced::Configuration { .. } => "configuration",
            Unfenced::ForeignRange { .. } => "foreign-range",
            Unfenced::SharedRange { .. } => "shared-range",
            Unfenced::Unholdable { .. } => "unholdable",
            Unfenced::Unreachable { .. } => "unreachable",
            Unfenced::SharedIntx { .. } => "shared-intx",
            Unfenced::SleepDisk { .. } => "sleep-disk",
            Unfenced::TooManyKept(_) | Unfenced::Plan { .. } => "plan",
            Unfenced::Permissions { .. } => "permissions",
        }
    }
}

/// A fact that only the bus, a hart or the caller shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// Whether a domain's function is a PCI Express root port: messages of a port's own, and of
    /// devices below some ports, have requester ID 0.
    RootPorts,
    /// Whether each virtio function has `iommu_platform`: without it the device passes the IOMMU
    /// by.
    VirtioPlatform,
    /// The INTx pins of functions: the check takes INTA for each.
    InterruptPins,
    /// The functions below a bridge with no function in the tree.
    BehindBridges,
    /// The PMP of the harts.
    Pmp,
    /// The disks with a sleep area.
    SleepDisks,
}

impl Unseen {
    /// A short name of the fact, which stays the same in later versions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unseen::RootPorts => "root-ports",
            Unseen::VirtioPlatform => "virtio-platform",
            Unseen::InterruptPins => "interrupt-pins",
            Unseen::BehindBridges => "behind-bridges",
            Unseen::Pmp => "pmp",
            Unseen::SleepDisks => "sleep-disks",
        }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unseen::RootPorts => "PCI Express root ports, whose DMA can have requester ID 0",
            Unseen::VirtioPlatform => "virtio functions without `iommu_platform`",
            Unseen::InterruptPins => "the INTx pins of functions; INTA is assumed",
            Unseen::BehindBridges => "functions below a bridge that the tree does not list",
            Unseen::Pmp => "the number and the granularity of PMP entries",
            Unseen::SleepDisks => "the disks with a sleep area",
        })
    }
}
