use poorwill_memory::PhysRange;
use thiserror::Error;

use super::DeviceId;

/// The reason why an IOMMU cannot fence devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IommuError {
    /// Another major version of the specification.
    #[error("the IOMMU implements version {0:#04x} of its specification; 1.x (0x1x) is needed")]
    Version(u8),
    /// The IOMMU reads its tables as big-endian, or as those of RV32.
    #[error(
        "the IOMMU's fctl is {0:#x}; it must read tables as little-endian and 64-bit, \
         so let the earlier boot stage leave fctl alone"
    )]
    Features(u32),
    /// No three-level first-stage tables.
    #[error("the IOMMU translates no Sv39 tables (capabilities {0:#x})")]
    NoSv39(u64),
    /// The IOMMU has no device directory with this number of levels.
    #[error("the IOMMU has no device directory of {0} levels; move the device to a lower bus")]
    Levels(u32),
    /// The number is beyond all directories.
    #[error("device ID {0} has more than 24 bits")]
    DeviceId(DeviceId),
    /// The range does not consist of whole pages.
    #[error("DMA to {:#x}-{:#x}: a range must begin and end at a page", .0.start, .0.end)]
    Misaligned(PhysRange),
    /// The IOMMU cannot translate these addresses.
    #[error(
        "DMA to {:#x}-{:#x}: the IOMMU reaches only addresses below {limit:#x}",
        range.start, range.end
    )]
    OutOfReach {
        /// The range that the map should have.
        range: PhysRange,
        /// The first address out of reach.
        limit: u64,
    },
    /// Two ranges of a map have this address.
    #[error("DMA to {0:#x} is in two ranges of one map; name each address once")]
    Overlap(u64),
    /// A part of a map that it does not have.
    #[error("the map was built without address {0:#x}")]
    Unmapped(u64),
    /// The caller gave too few pages.
    #[error("the IOMMU's tables need more pages than were reserved for them")]
    NoPages,
    /// There are more maps than address space numbers.
    #[error("the IOMMU has too many maps")]
    TooManyMaps,
    /// A directory was in use at the start.
    #[error(
        "the IOMMU translates already (ddtp {0:#x}): let the earlier boot stage leave it off or bare"
    )]
    Translates(u64),
    /// The IOMMU did not take the mode in which devices use physical addresses.
    #[error("the IOMMU stays closed (ddtp {0:#x}), and no device behind it reaches memory")]
    Closed(u64),
    /// A write to a register did not take effect in time.
    #[error(
        "the IOMMU did not finish a write to register {register:#x} within {polls} reads of it"
    )]
    Busy {
        /// Its offset.
        register: u64,
        /// The bound of the wait.
        polls: u32,
    },
    /// The IOMMU did not complete its commands in time. It may still use old contexts.
    #[error(
        "the IOMMU did not complete commands within {polls} polls: \
         devices may still use closed memory"
    )]
    Stalled {
        /// The bound of the wait.
        polls: u32,
    },
    /// The IOMMU stopped at a command. It may still use old contexts.
    #[error("the IOMMU stopped at a command (cqcsr {0:#x}): devices may still use closed memory")]
    Stopped(u32),
}
