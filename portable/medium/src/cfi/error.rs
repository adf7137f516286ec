use embedded_storage_async::nor_flash::{NorFlashError, NorFlashErrorKind};
use thiserror::Error;

/// Why a flash cannot be used, or why it failed. Offsets are in bytes from the
/// start of the bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CfiError {
    /// Nothing answers the query, or chips that are used below their own width.
    #[error("there is no CFI flash of a known arrangement of chips")]
    NotCfi,
    /// The chips take other commands.
    #[error("the flash takes command set {0:#06x}{name}, not Intel's (0x0001)", name = name(*.0))]
    CommandSet(u16),
    /// The chips of the bank say different things of themselves.
    #[error("the flash's chips differ")]
    Mixed,
    /// The bank is not 1, 2 or 4 bytes wide.
    #[error("the flash is {0} bytes wide, not 1, 2 or 4")]
    Width(u8),
    /// The chips describe themselves in a way that makes no sense.
    #[error("the flash describes its blocks in a way that makes no sense")]
    Geometry,
    /// The chips are not as large as the bus that leads to them.
    #[error("the flash holds {needed:#x} bytes, and the machine says {given:#x}")]
    Registers {
        /// Bytes that the chips hold.
        needed: u64,
        /// Bytes of the bus.
        given: u64,
    },
    /// A part that does not consist of whole blocks, or whose blocks do not make
    /// up whole erase units.
    #[error("the flash's blocks do not fit bytes {start:#x} to {end:#x} in units of {unit:#x}")]
    Blocks {
        /// First byte.
        start: u64,
        /// First byte behind.
        end: u64,
        /// Bytes of an erase unit.
        unit: u64,
    },
    /// The block is locked, and stays so when unlocked.
    #[error("the flash's block at {0:#x} is write-protected: lift the protection")]
    Protected(u64),
    /// The chip's programming voltage is too low.
    #[error("the flash's programming voltage is too low at {0:#x}")]
    Voltage(u64),
    /// The chip did not take the command.
    #[error("the flash refused a command at {0:#x}")]
    Sequence(u64),
    /// A block could not be erased.
    #[error("the flash's block at {0:#x} cannot be erased: it is worn out or read-only")]
    EraseFailed(u64),
    /// A word could not be programmed.
    #[error("the flash's word at {0:#x} cannot be written: it is worn out or read-only")]
    ProgramFailed(u64),
    /// The chip was still busy when its own longest time had gone by.
    #[error("the flash was busy for more than {milliseconds} ms at {offset:#x}")]
    TimedOut {
        /// Where.
        offset: u64,
        /// How long it was waited for.
        milliseconds: u32,
    },
    /// An access not aligned to words or erase units; a caller's fault.
    #[error("byte {0:#x} of the flash is not at the start of a word or of an erase unit")]
    Misaligned(u64),
    /// An access beyond the part; a caller's fault.
    #[error("bytes {offset:#x} to {end:#x} lie beyond the flash's part")]
    OutOfRange {
        /// First byte, from the start of the part.
        offset: u64,
        /// First byte behind.
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

/// The command sets that chips in the field have.
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
