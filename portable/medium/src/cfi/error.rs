use embedded_storage_async::nor_flash::{NorFlashError, NorFlashErrorKind};
use thiserror::Error;

/// The reason why a flash cannot be used, or why it failed. Offsets are in bytes from the
/// start of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CfiError {
    /// No chip answers the query, or chips use less than their own width.
    #[error("there is no CFI flash of a known arrangement of chips")]
    NotCfi,
    /// The chips use another command set.
    #[error("the flash takes command set {0:#06x}{name}, not Intel's (0x0001)", name = name(*.0))]
    CommandSet(u16),
    /// The chips' query tables differ.
    #[error("the flash's chips differ from each other")]
    Mixed,
    /// The bank is not 1, 2 or 4 bytes wide.
    #[error("the flash is {0} bytes wide, not 1, 2 or 4")]
    Width(u8),
    /// The query table describes impossible blocks.
    #[error("the flash's query table describes impossible blocks")]
    Geometry,
    /// The bank and its bus range have different lengths.
    #[error("the flash has {needed:#x} bytes, but its device tree node has {given:#x}")]
    Registers {
        /// The length of the bank in bytes.
        needed: u64,
        /// The length of its bus range in bytes.
        given: u64,
    },
    /// A part does not consist of whole blocks, or its blocks do not form whole erase
    /// units.
    #[error("bytes {start:#x} to {end:#x} of the flash are not whole blocks in units of {unit:#x}")]
    Blocks {
        /// The offset of the first byte.
        start: u64,
        /// The offset after the last byte.
        end: u64,
        /// The length of an erase unit in bytes.
        unit: u64,
    },
    /// The block is still locked after an unlock.
    #[error("the flash's block at {0:#x} is write-protected: lift the protection")]
    Protected(u64),
    /// The chip's programming voltage is too low.
    #[error("the flash's programming voltage is too low at {0:#x}")]
    Voltage(u64),
    /// The chip rejected the command.
    #[error("the flash refused a command at {0:#x}")]
    Sequence(u64),
    /// A block could not be erased.
    #[error("the flash's block at {0:#x} cannot be erased: it is worn out or read-only")]
    EraseFailed(u64),
    /// A word could not be programmed.
    #[error("the flash's word at {0:#x} cannot be written: it is worn out or read-only")]
    ProgramFailed(u64),
    /// The chip was still busy after the maximum time in its query table.
    #[error("the flash was busy for more than {milliseconds} ms at {offset:#x}")]
    TimedOut {
        /// The offset of the command.
        offset: u64,
        /// The duration of the wait.
        milliseconds: u32,
    },
    /// An access is not aligned to words or erase units: a bug of the caller.
    #[error("byte {0:#x} of the flash is not at the start of a word or of an erase unit")]
    Misaligned(u64),
    /// An access extends past the end of the part: a bug of the caller.
    #[error("bytes {offset:#x} to {end:#x} are outside the flash's part")]
    OutOfRange {
        /// The first offset, from the start of the part.
        offset: u64,
        /// The offset after the last byte.
        end: u64,
    },
}

impl NorFlashError for CfiError {
    fn kind(&self) -> NorFlashErrorKind {
        match self {
            CfiError::Misaligned(_) => NorFlashErrorKind::NotAligned,
            CfiError::OutOfRange { .. } => NorFlashErrorKind::OutOfBounds,
            _ => NorFlashErrorKind::Other,
        }
    }
}

/// The name of a command set of common chips.
fn name(command_set: u16) -> &'static str {
    match command_set {
        0x0002 => " (AMD's)",
        0x0003 => " (Intel's standard one)",
        0x0004 => " (AMD's standard one)",
        0x0100 => " (Mitsubishi's standard one)",
        0x0101 => " (Mitsubishi's)",
        0x0102 => " (SST's)",
        0x0200 => " (Intel's performance one)",
        _ => "",
    }
}
