use embedded_storage_async::nor_flash::{NorFlashError, NorFlashErrorKind};
use thiserror::Error;

/// The kind of a flash failure. The driver has details; see
/// [`Vault::flash`](crate::Vault::flash).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FlashFault {
    /// An access was not aligned to the flash's words or blocks.
    #[error("access not aligned")]
    Misaligned,
    /// An access lay beyond the flash's end.
    #[error("access beyond its end")]
    OutOfBounds,
    /// The device failed or did not answer.
    #[error("device error")]
    Device,
}

impl FlashFault {
    pub(crate) fn of(error: &impl NorFlashError) -> Self {
        match error.kind() {
            NorFlashErrorKind::NotAligned => FlashFault::Misaligned,
            NorFlashErrorKind::OutOfBounds => FlashFault::OutOfBounds,
            _ => FlashFault::Device,
        }
    }
}

/// Why the vault cannot be used, or why an operation on it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VaultError {
    /// The flash failed.
    #[error("the vault's flash failed: {0}")]
    Flash(FlashFault),
    /// A future of the flash waited; flashes here never do.
    #[error("the vault's flash driver waited, which it must not")]
    Waited,
    /// What was written or erased reads back differently.
    #[error(
        "the vault's flash does not keep what is written at byte {offset:#x}: replace it, or lift its write protection"
    )]
    NotKept {
        /// Where, in bytes from the start of the flash.
        offset: u32,
    },
    /// The flash reads as zeros, as QEMU's does without a backing file.
    #[error(
        "the vault's flash reads as all zeros, so it keeps nothing without power: give the machine a flash file filled with 0xff"
    )]
    NotBacked,
    /// The flash holds something else.
    #[error(
        "the flash holds data that is not a vault: if nobody needs it, fill its last four blocks with 0xff"
    )]
    Foreign,
    /// There is a vault, and it is inconsistent.
    #[error(
        "the vault is damaged: to begin a new one, without the old key and its images, fill the flash's last four blocks with 0xff"
    )]
    Damaged,
    /// The vault is of another version.
    #[error("the vault has version {found}, this Poorwill knows version {known}: update it")]
    Version {
        /// The vault's version.
        found: u16,
        /// The version that is known here.
        known: u16,
    },
    /// The range is not of four whole blocks of the flash.
    #[error("the vault's range is not four whole blocks of the flash")]
    Range,
    /// There is a key already; only rotating replaces it.
    #[error("the vault has a key already: rotate it to replace it")]
    KeyPresent,
    /// The generation is not the one that was reserved last, or was disarmed.
    #[error("generation {generation} cannot be armed: the last one reserved is {latest}")]
    NotReserved {
        /// The generation that was to be armed.
        generation: u64,
        /// The latest one.
        latest: u64,
    },
    /// There is no higher generation.
    #[error("there is no generation left: erase the sleep area's records and the vault")]
    Exhausted,
}
