use poorwill_devicetree::DescriptionError;
use poorwill_memory::MemoryMapError;
use thiserror::Error;

use crate::items::{DeviceError, Item};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    #[error("no device tree at {0:#x}")]
    NoTree(u64),
    #[error(transparent)]
    Description(#[from] DescriptionError),
    #[error(transparent)]
    Memory(#[from] MemoryMapError),
    #[error("the device tree has no QEMU configuration device (qemu,fw-cfg-mmio)")]
    NoDevice,
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("QEMU has no kernel: name one with -kernel")]
    NoKernel,
    #[error("the kernel is not a RISC-V Linux image: give -kernel an uncompressed Image")]
    Format,
    #[error("{0} is cut short: it has {1} bytes")]
    Truncated(Item, u32),
    #[error("the kernel asks for an offset of {0:#x}, which is no multiple of 2 MiB")]
    TextOffset(u64),
    #[error("no free memory for {0}, which takes {1} bytes")]
    NoRoom(Item, u64),
    #[error("the kernel's command line has {0} bytes; shorten it to {1}")]
    CommandLine(u32, usize),
    #[error(
        "the device tree has no /chosen, or no room for the kernel's command line and initramfs"
    )]
    Tree,
    #[error("the loader's stack at {0:#x} is not in free memory")]
    Stack(u64),
}
