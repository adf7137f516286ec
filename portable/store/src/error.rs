use poorwill_medium::MediumError;
use poorwill_vault::VaultError;
use thiserror::Error;

use crate::delay::DelayError;
use crate::layout::MIN_AREA_BYTES;
use crate::parts::PartError;
use crate::record::RecordFormat;
use crate::slot::SlotId;

/// An error of a sleep area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The partition is too small to be a sleep area.
    #[error("the sleep area has {bytes} bytes; make it at least {MIN_AREA_BYTES} bytes long")]
    TooSmall {
        /// The partition's length.
        bytes: u64,
    },
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The device reported a successful write of the record, but did not store it.
    #[error("the record of slot {0} reads back differently: the device does not store writes")]
    NotKept(SlotId),
    /// A delay is out of range; nothing was written.
    #[error(transparent)]
    Delay(#[from] DelayError),
    /// The device reported a successful write of the configuration, but did not store it.
    #[error("the configuration reads back differently: the device does not store writes")]
    ConfigurationNotKept,
    /// The image is no longer committed: a bug of the caller.
    #[error("the image in slot {0} is not committed any more")]
    Stale(SlotId),
    /// The vault failed.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The image is older than the machine's latest sleep: an old image was copied back.
    #[error(
        "the image is of sleep {image}, but the latest is sleep {latest}: an old image was copied back"
    )]
    PutBack {
        /// The image's generation.
        image: u64,
        /// The generation of the machine's latest sleep.
        latest: u64,
    },
    /// The vault does not permit this sleep's image to wake.
    #[error("sleep {0} was interrupted, or its image was used or discarded")]
    Spent(u64),
    /// The machine's counter permits another snapshot, or no snapshot.
    #[error(
        "snapshot {0} is not this machine's: it was copied back, or belongs to another machine"
    )]
    NotKeptHere(u64),
    /// There is no snapshot.
    #[error("the sleep area holds no snapshot")]
    NoSnapshot,
    /// The purpose of a sleep is another machine's: a bug of the caller.
    #[error("this sleep is of {0}")]
    OtherPurpose(RecordFormat),
    /// An image cannot be a part of the set, or the set has no such part.
    #[error(transparent)]
    Part(#[from] PartError),
}

/// The reason why an image was not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// There is certainly no image, so the OS can continue.
    #[error("the image was not committed: {0}")]
    NotCommitted(StoreError),
    /// The medium failed, and it is unknown whether there is an image. The OS must not
    /// continue: if the image woke later, its disks would have changed. Reset the
    /// machine.
    #[error("it is unknown whether the image was committed: {0}")]
    InDoubt(StoreError),
}
