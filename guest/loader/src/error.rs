use poorwill_devicetree::DescriptionError;
use poorwill_memory::MemoryMapError;
use thiserror::Error;

use crate::items::{DeviceError, Item};

/// Why no kernel is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// No device tree lies where the firmware says.
    #[error("no device tree at {0:#x}")]
    NoTree(u64),
    /// The device tree is of no use.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The memory is.
    #[error(transparent)]
    Memory(#[from] MemoryMapError),
    /// Nothing to load from.
    #[error("the device tree has no QEMU configuration device (qemu,fw-cfg-mmio)")]
    NoDevice,
    /// That does not do what it is told.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// QEMU was given none.
    #[error("there is no kernel: name one with -kernel")]
    NoKernel,
    /// Neither Linux's image nor an ELF file of this machine.
    #[error("the kernel is neither a RISC-V Linux image nor a 64-bit RISC-V ELF file")]
    Format,
    /// It ends before what its header speaks of.
    #[error("{0} is cut short: it has {1} bytes")]
    Truncated(Item, u32),
    /// Linux's header asks for a place that no Linux can run in.
    #[error("the kernel asks for an offset of {0:#x}, which is no multiple of 2 MiB")]
    TextOffset(u64),
    /// A segment is longer in the file than in memory.
    #[error("the kernel's segment at {0:#x} has less memory than data")]
    Segment(u64),
    /// More segments than there is room for.
    #[error("the kernel has more than {0} segments to load")]
    TooManySegments(usize),
    /// A segment lies where memory is not free.
    #[error("the kernel's segment from {start:#x} to {end:#x} is not in free memory")]
    NotFree {
        /// Its first address.
        start: u64,
        /// The first address behind it.
        end: u64,
    },
    /// The kernel does not start in what it loads.
    #[error("the kernel starts at {0:#x}, where nothing of it lies")]
    Entry(u64),
    /// No range of free memory is long enough.
    #[error("no free memory for {0}, which takes {1} bytes")]
    NoRoom(Item, u64),
    /// Longer than a kernel would read.
    #[error("the kernel's command line has {0} bytes, and at most {1} are taken")]
    CommandLine(u32, usize),
    /// The device tree cannot be changed.
    #[error("the device tree has no room, or no /chosen, for what the kernel is to be told")]
    Tree,
    /// Nothing is known of free memory beside the loader's own stack.
    #[error("the loader's stack at {0:#x} is not in free memory")]
    Stack(u64),
}
