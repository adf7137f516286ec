use poorwill_pci::Function;
use thiserror::Error;

use super::limits::MAX_PARTITION_HARTS;
use crate::bound::TooMany;
use crate::node::{MAX_DEPTH, NodeName};

/// Why the partition that a tree describes is refused.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PartitionError {
    #[error("the device tree is damaged")]
    Damaged,
    #[error("the device tree is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error(transparent)]
    TooMany(#[from] TooMany),
    #[error("/chosen has two nodes {0}; keep one")]
    Twice(&'static str),
    #[error(
        "{0}: the node is neither a domain nor a memory region; remove it or mend `compatible`"
    )]
    UnknownNode(NodeName),
    #[error("{0}: the node's name is too long; shorten it")]
    LongName(NodeName),
    #[error("two domains are named {0}; rename one")]
    SameName(NodeName),
    #[error("{node}: `{property}` is missing; add it")]
    Missing {
        node: NodeName,
        property: &'static str,
    },
    #[error("{node}: `{property}` has a wrong length or value; mend it")]
    Malformed {
        node: NodeName,
        property: &'static str,
    },
    #[error("{node}: `{property}` names phandle {phandle:#x}, which no suitable node has")]
    UnknownPhandle {
        node: NodeName,
        property: &'static str,
        phandle: u32,
    },
    #[error("{node}: order {order} is not within 3 and 64")]
    Order { node: NodeName, order: u32 },
    #[error("{node}: base {base:#x} is not a multiple of 2^{order}; align it")]
    Misaligned {
        node: NodeName,
        base: u64,
        order: u32,
    },
    #[error("domain {domain}: permissions {bits:#x} at {base:#x}: {fault}")]
    Permissions {
        domain: NodeName,
        base: u64,
        bits: u32,
        fault: PermissionFault,
    },
    #[error("domain {domain}: two regions have base {base:#x} and order {order}; remove one")]
    SameRegion {
        domain: NodeName,
        base: u64,
        order: u32,
    },
    #[error(
        "domain {0}: `root-regions-inheritance` is not \"m-only\"; list the domain's own regions"
    )]
    InheritsRoot(NodeName),
    #[error("domain {domain}: `next-mode` is {mode}; use 1, S-mode, or 0, U-mode")]
    NextMode { domain: NodeName, mode: u32 },
    #[error("domain {0} has no hart; set `opensbi-domain` of a CPU to it")]
    NoHarts(NodeName),
    #[error("hart {hart}: `opensbi-domain` names phandle {phandle:#x}, which no domain has")]
    UnknownDomain { hart: u64, phandle: u32 },
    #[error("hart {0} has a domain, but no MMU; remove `opensbi-domain` of its CPU")]
    NoMmu(u64),
    #[error("two CPUs have hart ID {0}")]
    SameHart(u64),
    #[error("domain {domain} has hart {hart}, which its `possible-harts` does not list; add it")]
    NotPossible { domain: NodeName, hart: u64 },
    #[error("domain {domain}: boot hart {hart} is not one of its harts; name one of them")]
    BootHart { domain: NodeName, hart: u64 },
    #[error(
        "domain {domain}: `cold-boot-harts` lists a hart of it, but not its boot hart {hart}; \
         name the same"
    )]
    NotCold { domain: NodeName, hart: u64 },
    #[error("domains {domain} and {other} have wake order {order}; change one")]
    SameWakeOrder {
        domain: NodeName,
        other: NodeName,
        order: u32,
    },
    #[error("{node}: `poorwill,functions`, {function}, register {register:#x}: {fault}")]
    Function {
        node: NodeName,
        function: Function,
        register: u8,
        fault: FunctionFault,
    },
    #[error("domains {domain} and {other} have `system-suspend-allowed`; the master alone may")]
    TwoMasters { domain: NodeName, other: NodeName },
    #[error("a machine with a partition has more than {MAX_PARTITION_HARTS} CPUs")]
    TooManyHarts,
}

/// Why permissions are refused.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PermissionFault {
    #[error("bit 6 would bind machine mode, which Poorwill does not lock; clear it")]
    EnforcedOnMachine,
    #[error("bits above 5 are unknown; clear them")]
    UnknownBits,
    #[error("a domain's region needs a bit of S and U mode, or no bit")]
    MachineOnly,
    #[error("PMP has no writes without reads; set bit 3, too")]
    WriteOnly,
}

/// Why an entry of `poorwill,functions` is refused.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FunctionFault {
    #[error("aliased addresses and reserved bits are not supported; clear bits 26 to 29")]
    Flags,
    #[error("the function has no such register of addresses")]
    Register,
    #[error("the register is listed twice; remove one entry")]
    Twice,
    #[error("its addresses overflow, or have no length")]
    Length,
    #[error("the bus numbers are not ascending, or above 255")]
    Buses,
    #[error("machine mode uses functions of bus 0 alone; connect the function there")]
    NotFirstBus,
    #[error("machine mode has no bridge; leave the bus numbers out")]
    OwnBridge,
}
