use thiserror::Error;

use super::config::Function;

/// The reason why a device cannot be used over PCI. The bus is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PciError {
    /// No function answers at this address: it was pulled out or has no power.
    #[error("no PCI function answers at {0}; check whether the device is still connected")]
    Absent(Function),
    /// Another device than expected answers, so the location is out of date.
    #[error("PCI function {0} is another device than before; search again")]
    Changed(Function),
    /// The capability list has a loop, or points outside its range.
    #[error("PCI function {0} has a damaged capability list")]
    CapabilityList(Function),
    /// The function did not leave its power state within the time of the specification
    /// (10 ms from D3hot).
    #[error("PCI function {0} does not leave its low-power state")]
    Asleep(Function),
    /// The BAR is missing, an I/O range, or of a reserved type.
    #[error("PCI function {function} has no memory in BAR {bar}")]
    NotMemory {
        /// The BAR's function.
        function: Function,
        /// The BAR's number, 0 to 5.
        bar: u8,
    },
    /// The BAR has no length, or one that is impossible for this kind of device.
    #[error("PCI function {function} has a BAR {bar} with an impossible length")]
    Size {
        /// The BAR's function.
        function: Function,
        /// The BAR's number, 0 to 5.
        bar: u8,
    },
    /// No window of the host bridge has room for the BAR.
    #[error("the PCI bus has no free address for the {length:#x} bytes of {function}")]
    NoAddress {
        /// The BAR's function.
        function: Function,
        /// The BAR's length in bytes.
        length: u64,
    },
    /// No bus number is left for the buses below a bridge.
    #[error("no bus number is left for the buses below the PCI bridge {0}")]
    NoBus(Function),
    /// A register does not store a written value.
    #[error("register {register:#x} of PCI function {function} does not store a written value")]
    Stuck {
        /// The register's function.
        function: Function,
        /// Its offset in configuration space.
        register: u16,
    },
    /// More bridges are nested than the driver supports.
    #[error("more than {max} nested PCI bridges at {0}", max = super::MAX_DEPTH)]
    TooDeep(Function),
    /// More functions have access to memory than the driver can record.
    #[error("too many PCI functions have access to memory; {0} would keep its access")]
    TooManyMasters(Function),
    /// A function has virtual functions (SR-IOV), which are not listed.
    #[error(
        "the PCI function {0} has virtual functions, which the firmware cannot restore; \
         write 0 to its sriov_numvfs"
    )]
    VirtualFunctions(Function),
    /// There are more functions than the driver can list.
    #[error("more PCI functions than {max}; {0} is one too many", max = super::MAX_FUNCTIONS)]
    TooManyFunctions(Function),
    /// There are more devices than the driver can list.
    #[error("more than {max} devices for sleep areas; {0} is left out", max = super::MAX_DEVICES)]
    TooMany(Function),
    /// There are more IOMMUs than the driver can list, so it cannot open them all.
    #[error(
        "more than {max} IOMMUs below a PCI host bridge; remove {0}", max = super::MAX_IOMMUS
    )]
    TooManyIommus(Function),
}
