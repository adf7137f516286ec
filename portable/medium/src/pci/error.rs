use thiserror::Error;

use super::config::Function;

/// Why a device cannot be reached over PCI. The bus is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PciError {
    /// Nothing answers at the function's address: pulled out, or without power.
    #[error("no PCI function answers at {0}; is the device still there?")]
    Absent(Function),
    /// Another device than expected answers: the location is out of date.
    #[error("PCI function {0} is not what it was; search again")]
    Changed(Function),
    /// The list of capabilities has a loop, or points outside its range.
    #[error("PCI function {0} has a damaged list of capabilities")]
    CapabilityList(Function),
    /// The function did not come out of its power state within the time that
    /// the specification grants (10 ms from D3hot).
    #[error("PCI function {0} does not wake from its power state")]
    Asleep(Function),
    /// The BAR is missing, an I/O range, or of a reserved type.
    #[error("PCI function {function} has no memory in BAR {bar}")]
    NotMemory {
        /// The BAR's function.
        function: Function,
        /// Its number, 0 to 5.
        bar: u8,
    },
    /// The BAR claims no size, or one that no such device has.
    #[error("PCI function {function} has a BAR {bar} of no sensible size")]
    Size {
        /// Whose BAR.
        function: Function,
        /// Its number, 0 to 5.
        bar: u8,
    },
    /// No window of the host bridge has room for the BAR.
    #[error("no address is free on the PCI bus for the {length:#x} bytes of {function}")]
    NoAddress {
        /// Whose BAR.
        function: Function,
        /// Its size in bytes.
        length: u64,
    },
    /// No bus number is left for what lies behind a bridge.
    #[error("no bus number is left for what lies behind the PCI bridge {0}")]
    NoBus(Function),
    /// A register does not keep what is written to it.
    #[error("register {register:#x} of PCI function {function} does not keep what is written")]
    Stuck {
        /// Whose register.
        function: Function,
        /// Its offset in configuration space.
        register: u16,
    },
    /// More nested bridges than are followed.
    #[error("more PCI bridges in a row than {max} below {0}", max = super::MAX_DEPTH)]
    TooDeep(Function),
    /// More functions have access to memory than can be noted.
    #[error("too many PCI functions have access to memory; {0} would keep its own")]
    TooManyMasters(Function),
    /// A function has virtual functions (SR-IOV), which are not looked for.
    #[error(
        "the PCI function {0} has virtual functions, which nothing here can bring back; \
         write 0 to its sriov_numvfs"
    )]
    VirtualFunctions(Function),
    /// More functions than are listed.
    #[error("more PCI functions than {max}; {0} is one too many", max = super::MAX_FUNCTIONS)]
    TooManyFunctions(Function),
    /// More devices than are listed.
    #[error("more than {max} devices for sleep areas; {0} is left out", max = super::MAX_DEVICES)]
    TooMany(Function),
}
