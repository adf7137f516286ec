use poorwill_image::StateError;
use poorwill_pci::{Function, PciError};
use thiserror::Error;

/// The reason why a machine's devices cannot be saved or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeeperError {
    /// A device without a keeper is in use, so its state cannot be restored.
    #[error("the PCI function {0} is in use, and the firmware cannot restore it")]
    NoKeeper(Function),
    /// More devices are in use than can be stopped together.
    #[error("more than {max} PCI devices are in use; {0} is one too many", max = crate::MAX_DEVICES)]
    TooMany(Function),
    /// The bus does not forward the addresses of the device's registers.
    #[error("the registers of PCI function {0} cannot be reached")]
    Unreachable(Function),
    /// The device is in a state that cannot be saved.
    #[error("the PCI function {0} is in a state that cannot be kept")]
    State(Function),
    /// The device did not finish its work in time.
    #[error("the PCI function {0} did not finish in time")]
    NotDone(Function),
    /// The disk may need this number of microseconds to write its cache, but fewer are left.
    #[error("the PCI function {0} may take {1} us to write its cache, and there is less time")]
    TooSlow(Function, u32),
    /// Another device, or no device, is at the record's function.
    #[error("the PCI function {0} is another device than before")]
    Changed(Function),
    /// An error of the bus.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The record has no room, or is invalid.
    #[error(transparent)]
    Record(#[from] StateError),
}
