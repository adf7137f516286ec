use core::fmt;

use thiserror::Error;

/// An argument of QEMU's command line that QEMU offers in its configuration device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// `-kernel`.
    Kernel,
    /// `-initrd`.
    Initrd,
    /// `-append`, with a terminating zero. If the flash is bootable, QEMU does not put it into the
    /// device tree.
    CommandLine,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Item::Kernel => "the kernel",
            Item::Initrd => "the initramfs",
            Item::CommandLine => "the kernel's command line",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    #[error("the configuration device is not QEMU's, or has no DMA")]
    Unknown,
    #[error("the configuration device refuses to move {0} bytes")]
    Refused(u32),
}

/// A source of items.
pub trait Items {
    /// Length of an item in bytes; 0: there is no such item.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    fn length(&mut self, item: Item) -> Result<u32, DeviceError>;

    /// Fills `into` with the first bytes of an item. The item must have all of them.
    ///
    /// # Errors
    ///
    /// [`DeviceError`], also for an item that is shorter.
    fn read(&mut self, item: Item, into: &mut [u8]) -> Result<(), DeviceError>;
}
