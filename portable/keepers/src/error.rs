use poorwill_image::StateError;
use poorwill_medium::pci::{Function, PciError};
use thiserror::Error;

/// Why a machine's devices cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeeperError {
    /// A device is in use that nothing here can put back as its driver left it.
    #[error("the PCI function {0} is in use, and nothing here can bring it back")]
    NoKeeper(Function),
    /// More devices are in use than can be stopped together.
    #[error("more than {max} PCI devices are in use; {0} is one too many", max = crate::MAX_DEVICES)]
    TooMany(Function),
    /// A device's registers are not where the bus would forward them.
    #[error("the registers of PCI function {0} cannot be reached")]
    Unreachable(Function),
    /// It is in a state that is not kept.
    #[error("the PCI function {0} is in a state that cannot be kept")]
    State(Function),
    /// It has not put in order what it was to keep.
    #[error("the PCI function {0} did not finish in time")]
    NotDone(Function),
    /// A disk takes so many microseconds to put it in order, which are more than are left.
    #[error("the PCI function {0} may take {1} us to write its cache, and there is less time")]
    TooSlow(Function, u32),
    /// Another device answers than the record is of, or none.
    #[error("the PCI function {0} is not what it was")]
    Changed(Function),
    /// The bus.
    #[error(transparent)]
    Pci(#[from] PciError),
    /// The record has no room, or is not one of these.
    #[error(transparent)]
    Record(#[from] StateError),
}
