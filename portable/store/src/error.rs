use poorwill_medium::MediumError;
use poorwill_vault::VaultError;
use thiserror::Error;

use crate::delay::DelayError;
use crate::layout::MIN_AREA_BYTES;
use crate::slot::SlotId;

/// What goes wrong with a sleep area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The partition is too small to be a sleep area.
    #[error("the sleep area has {bytes} bytes, at least {MIN_AREA_BYTES} are needed")]
    TooSmall {
        /// Bytes of the partition.
        bytes: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The device said that it kept a record, and did not.
    #[error("the record of slot {0} reads back otherwise than it was written")]
    NotKept(SlotId),
    /// A configuration with a delay out of range; nothing was written.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// The device said that it kept the configuration, and did not.
    #[error("the configuration reads back otherwise than it was written")]
    ConfigurationNotKept,
    /// The image is not committed any more: a caller's fault.
    #[error("the image in slot {0} is not committed any more")]
    Stale(SlotId),
    /// The vault failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The machine has slept since: somebody has put an older image back.
    #[error("sleep {image} is over: the latest is sleep {latest}, so the image was put back")]
    PutBack {
        /// The image's generation.
        image: u64,
        /// The generation of the machine's latest sleep.
        latest: u64,
    },
    /// The vault knows the sleep, and that its image is not to wake.
    #[error("sleep {0} was cut short or is over: its image may not wake any more")]
    Spent(u64),
    /// The machine keeps another snapshot, or none.
    #[error(
        "snapshot {0} is not the one that this machine keeps: it was put back or is of another"
    )]
    NotKeptHere(u64),
    /// There is no snapshot.
    #[error("the sleep area holds no snapshot")]
    NoSnapshot,
}

/// Why an image was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// There is no image, and the OS can go on.
    #[error("the image was not committed: {0}")]
    NotCommitted(StoreError),
    /// The medium failed so that nobody can tell whether there is an image. The
    /// OS must not go on: should the image wake one day, its disks would have
    /// changed behind its back. Reset the machine.
    #[error("nobody can tell whether the image was committed: {0}")]
    InDoubt(StoreError),
}
