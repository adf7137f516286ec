//! What a driver waits for.

use core::fmt;

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An NVMe controller becomes ready.
    Ready,
    /// An NVMe controller stops.
    Stop,
    /// An NVMe controller puts its caches and tables in order.
    Shutdown,
    /// An NVMe controller completes an admin command with this opcode.
    Admin(u8),
    /// An NVMe controller completes a read, a write or a flush.
    Transfer,
    /// An NVMe controller's memory region becomes ready.
    Region,
    /// A flash chip programs or erases at this offset of its bank.
    Flash(u64),
}

impl fmt::Display for Wait {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wait::Ready => out.write_str("the NVMe controller to become ready"),
            Wait::Stop => out.write_str("the NVMe controller to stop"),
            Wait::Shutdown => out.write_str("the NVMe controller to shut down"),
            Wait::Admin(opcode) => write!(
                out,
                "the NVMe controller to complete admin command {opcode:#04x}"
            ),
            Wait::Transfer => {
                out.write_str("the NVMe controller to complete a read, write or flush")
            }
            Wait::Region => out.write_str("the NVMe controller's memory region to become ready"),
            Wait::Flash(offset) => write!(out, "the flash chip to program or erase at {offset:#x}"),
        }
    }
}
