use thiserror::Error;

use crate::{Function, PciError};

/// Why functions cannot be placed as planned. All functions that can be reached are off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlacementError {
    /// Two entries name a function.
    #[error("PCI function {0} is named twice; remove one entry")]
    Twice(Function),
    /// No bridge of the plan leads to the function's bus.
    #[error("PCI function {0}: no named bridge leads to its bus; name the bridge and its buses")]
    UnknownBus(Function),
    /// The bus numbers of a bridge are not above its own, too high, or another bridge's.
    #[error("PCI bridge {0}: its bus numbers collide, or do not lie within those above it")]
    Buses(Function),
    /// More bridges than [`MAX_BRIDGES`](super::MAX_BRIDGES).
    #[error("more PCI bridges than {max} are named; {0} is one too many", max = super::MAX_BRIDGES)]
    TooManyBridges(Function),
    /// A range belongs to no named function, or to a register that holds no address.
    #[error("{0} is no register of a named function that holds an address")]
    NoRegister(Register),
    /// The range is not a naturally aligned power of two, or the window not of whole units.
    #[error("{register}: {address:#x} does not fit its alignment of {alignment:#x}")]
    Misaligned {
        /// The register.
        register: Register,
        /// The range's start, or the end of a window.
        address: u64,
        /// In bytes.
        alignment: u64,
    },
    /// The register cannot hold the end of the range.
    #[error("{register}: the range must end by {limit:#x}")]
    TooHigh {
        /// The register.
        register: Register,
        /// The first address that does not fit.
        limit: u64,
    },
    /// No window of the host bridge has the range.
    #[error("{0}: the host bridge forwards no such addresses")]
    OutsideHost(Register),
    /// The range is in no window of the bridge above it.
    #[error("{register}: the bridge {bridge} above it does not forward these addresses")]
    OutsideBridge {
        /// The register.
        register: Register,
        /// The bridge.
        bridge: Function,
    },
    /// Two ranges, or bridges' windows, on one bus share an address.
    #[error("{first} and {second} share addresses")]
    Overlap {
        /// A register.
        first: Register,
        /// Another register.
        second: Register,
    },
    /// No function answers.
    #[error("no PCI function answers at {0}; connect the device, or remove its entries")]
    Absent(Function),
    /// The function is a bridge and has no bus numbers in the plan, or the other way round.
    #[error("PCI function {0}: a bridge, and no other function, needs named buses")]
    BridgeOrNot(Function),
    /// The bridge also forwards addresses outside its windows.
    #[error("the PCI bridge {0} decodes subtractively, so nothing fences the functions below it")]
    Subtractive(Function),
    /// A root port: some IOMMUs see all functions below it as device 0.
    #[error("{0} is a root port, below which an IOMMU cannot tell functions apart; use a bridge")]
    RootPort(Function),
    /// The function is below a named bridge, and has no name.
    #[error("PCI function {0} is below a named bridge; name it, too, or remove the device")]
    Unlisted(Function),
    /// The register has another kind of address than planned.
    #[error("{0} is of another kind: I/O, memory of 32 bits or of 64 bits")]
    Kind(Register),
    /// The register has another length than planned.
    #[error("{register} has {found:#x} bytes and not {named:#x}")]
    Size {
        /// The register.
        register: Register,
        /// Bytes in the plan.
        named: u64,
        /// Bytes that the function decodes; 0 if it has no such register.
        found: u64,
    },
    /// The function has a register of addresses that the plan does not name.
    #[error("{0} has no address in the plan; name all BARs of the function")]
    Unnamed(Register),
    /// Only the bridge's prefetchable window reaches the range, and reads have side effects.
    #[error("{0} is not prefetchable, so its address must be in the bridge's other window")]
    NotPrefetchable(Register),
    /// The register does not store its value.
    #[error("{0} does not store its value")]
    Stuck(Register),
    /// The function's capabilities cannot be read.
    #[error(transparent)]
    Pci(#[from] PciError),
}

/// A register of configuration space, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register {
    /// The function.
    pub function: Function,
    /// Offset in bytes.
    pub offset: u8,
}

impl core::fmt::Display for Register {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Register { function, offset } = self;
        write!(out, "register {offset:#04x} of PCI function {function}")
    }
}
