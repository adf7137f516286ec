use core::fmt;
use core::ops::RangeInclusive;

use super::register::{
    CLASS, CLASS_IOMMU, CLASS_NVME, COMMAND_MASTER, COMMAND_MEMORY, ID, ID_SHARED_MEMORY,
};
use super::{ConfigSpace, Function};

/// The kinds of devices that a sleep needs: how to recognise each, and its BAR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An NVMe controller (class 01.08.02), its registers in BAR 0.
    Nvme,
    /// Memory shared with the host (`ivshmem-plain`, device 1af4:1110), in BAR 2.
    SharedMemory,
    /// An IOMMU (class 08.06.00), its registers in BAR 0. It holds no sleep area, but disks may
    /// reach memory only through it.
    Iommu,
}

impl Kind {
    /// The kind of a function; `None` for other functions.
    pub(super) fn of(config: &impl ConfigSpace, function: Function, header: u32) -> Option<Self> {
        if header >> 16 & 0x7f != 0 {
            return None;
        }
        match config.read32(function, CLASS) >> 8 {
            CLASS_NVME => Some(Kind::Nvme),
            CLASS_IOMMU => Some(Kind::Iommu),
            _ if config.read32(function, ID) == ID_SHARED_MEMORY => Some(Kind::SharedMemory),
            _ => None,
        }
    }

    /// The number of its BAR, 0 to 5.
    #[must_use]
    pub fn bar(self) -> u8 {
        match self {
            Kind::Nvme | Kind::Iommu => 0,
            Kind::SharedMemory => 2,
        }
    }

    pub(super) fn sizes(self) -> RangeInclusive<u64> {
        match self {
            Kind::Nvme | Kind::Iommu => REGISTER_SIZES,
            Kind::SharedMemory => MEMORY_SIZES,
        }
    }

    /// The command register bits that the function needs.
    pub(super) fn rights(self) -> u32 {
        match self {
            Kind::Nvme => COMMAND_MEMORY | COMMAND_MASTER,
            // The firmware gives an IOMMU no tables to read.
            Kind::SharedMemory | Kind::Iommu => COMMAND_MEMORY,
        }
    }
}

/// The registers take at least a page, and at most 4 GiB.
const REGISTER_SIZES: RangeInclusive<u64> = 0x1000..=1 << 32;

/// The memory takes at least a page; no bus has room for more than the maximum.
pub(super) const MEMORY_SIZES: RangeInclusive<u64> = 0x1000..=1 << 48;

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Nvme => "NVMe disk",
            Kind::SharedMemory => "shared memory",
            Kind::Iommu => "IOMMU",
        })
    }
}
