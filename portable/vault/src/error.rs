use embedded_storage_async::nor_flash::{NorFlashError, NorFlashErrorKind};
use thiserror::Error;

/// The kind of a flash failure. The driver behind [`Vault::flash`](crate::Vault::flash)
/// has details.
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

/// The reason why the vault cannot be used, or why an operation on it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VaultError {
    /// The flash failed.
    #[error("the vault's flash failed: {0}")]
    Flash(FlashFault),
    /// A future of the flash did not finish at its first poll. The flash drivers here never wait.
    #[error("the vault's flash driver waited; it must finish each operation at once")]
    Waited,
    /// The written or erased bytes read back differently.
    #[error(
        "the vault's flash does not keep the bytes written at {offset:#x}: replace it, or lift its write protection"
    )]
    NotKept {
        /// The offset in bytes from the start of the flash.
        offset: u32,
    },
    /// The flash reads as zeros, as QEMU's does without a backing file.
    #[error(
        "the vault's flash reads as all zeros, so it loses its contents without power: give the machine a flash file filled with 0xff"
    )]
    NotBacked,
    /// The flash holds other data.
    #[error(
        "the flash holds data that is not a vault: if you do not need it, fill its last four blocks with 0xff"
    )]
    Foreign,
    /// A vault exists but is inconsistent.
    #[error(
        "the vault is damaged: to begin a new one, without the old key and its images, fill the flash's last four blocks with 0xff"
    )]
    Damaged,
    /// The vault has an unknown version.
    #[error("the vault has version {found}, this Poorwill knows version {known}: update it")]
    Version {
        /// The vault's version.
        found: u16,
        /// The newest version that this crate reads.
        known: u16,
    },
    /// The range is not four whole blocks of the flash.
    #[error("the vault's range is not four whole blocks of the flash")]
    Range,
    /// The vault has a key; only a rotation replaces it.
    #[error("the vault has a key already: rotate it to replace it")]
    KeyPresent,
    /// The generation is not the last one reserved, or was disarmed.
    #[error("generation {generation} cannot be armed: the last one reserved is {latest}")]
    NotReserved {
        /// The generation to arm.
        generation: u64,
        /// The last reserved generation.
        latest: u64,
    },
    /// The generation numbers are used up.
    #[error("no generation number is left: erase the sleep area's records and the vault")]
    Exhausted,
}
