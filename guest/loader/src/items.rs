use core::fmt;

use thiserror::Error;

/// What QEMU hands over of what its command line names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// `-kernel`.
    Kernel,
    /// `-initrd`.
    Initrd,
    /// `-append`, with a zero behind it. With a bootable flash QEMU does not put it into
    /// the device tree.
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

/// The configuration device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// It is another device, or has no DMA.
    #[error("the configuration device is not QEMU's, or has no DMA")]
    Unknown,
    /// It, or the firmware, refuses a request.
    #[error("the configuration device refuses to move {0} bytes")]
    Refused(u32),
}

/// Where items are read from.
pub trait Items {
    /// Bytes of an item; 0 where there is none.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    fn length(&mut self, item: Item) -> Result<u32, DeviceError>;

    /// Fills `into` with what lies `offset` bytes from its start, which it has.
    ///
    /// # Errors
    ///
    /// [`DeviceError`].
    fn read(&mut self, item: Item, offset: u32, into: &mut [u8]) -> Result<(), DeviceError>;
}
