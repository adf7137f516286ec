//! The mode in which a bank is read, which chips do not tell: found by comparing what is
//! read with what each mode reads.

use thiserror::Error;

use super::bank::{
    QUERY, QUERY_ADDRESS, READ_ARRAY, READ_IDENTITY, READ_STATUS, READY, all_ones, command_chips,
    replicate,
};
use super::{Geometry, Registers};

/// What a bank is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Its contents.
    Array,
    /// The status of its chips, which are ready, and report nothing else.
    Status,
    /// Manufacturer and device.
    Identity,
    /// The query table.
    Query,
}

/// The mode of a bank cannot be told, or not be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ModeError {
    /// It is in the middle of a command, has one suspended, or reports an error.
    #[error("the flash is in the middle of a command, or reports an error")]
    Busy,
    /// What is read is what several modes read.
    #[error("what the flash reads as is what it reads as in several modes")]
    Ambiguous,
    /// Its chips do not answer as they did.
    #[error("the flash does not answer the query")]
    NoAnswer,
}

/// Where each mode reads as something of its own, in units of the bank's width: manufacturer
/// and device, the query table's first letters, and one that is beyond both.
const SAMPLES: [u64; 6] = [0, 1, 0x10, 0x11, 0x12, 0x80];

type Sample = [u32; SAMPLES.len()];

fn sample(registers: &impl Registers) -> Sample {
    let width = u64::from(registers.width());
    SAMPLES.map(|place| registers.read(place * width))
}

impl Mode {
    const ALL: [Mode; 4] = [Mode::Array, Mode::Status, Mode::Identity, Mode::Query];

    /// A number, for a record.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Mode::Array => 0,
            Mode::Status => 1,
            Mode::Identity => 2,
            Mode::Query => 3,
        }
    }

    /// The mode of that number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.number() == number)
    }
}

/// Has a bank read as something; its chips are in no other command.
pub fn set_mode(registers: &impl Registers, geometry: &Geometry, mode: Mode) {
    let (command, place) = match mode {
        Mode::Array => (READ_ARRAY, 0),
        Mode::Status => (READ_STATUS, 0),
        Mode::Identity => (READ_IDENTITY, 0),
        Mode::Query => (QUERY, QUERY_ADDRESS),
    };
    let offset = place * u64::from(registers.width());
    command_chips(registers, geometry.chip_width, offset, command);
}

/// The mode in which an OS has left a bank that is like that. It reads as memory then.
///
/// A word of all ones comes first, which is the command to do so; for chips that wait for
/// data to program it is data that changes nothing, and so they are told from others: they
/// do not read as memory yet. It goes to `offset`, in bytes: QEMU's chips store what they are
/// to program as it is, so there that word becomes all ones, if the OS was between the two
/// writes of a command that programs. It should be one that is blank.
///
/// # Errors
///
/// [`ModeError`].
pub fn read_mode(
    registers: &impl Registers,
    geometry: &Geometry,
    offset: u64,
) -> Result<Mode, ModeError> {
    let found = sample(registers);
    registers.write(offset, all_ones(registers.width()));
    let first = sample(registers);
    let read_as = |mode| {
        set_mode(registers, geometry, mode);
        sample(registers)
    };
    let [status, identity, query] = [Mode::Status, Mode::Identity, Mode::Query].map(read_as);
    let array = read_as(Mode::Array);
    let of_chips = |byte| replicate(registers.width(), geometry.chip_width, byte);
    let [_, _, q, r, y, _] = query;
    if [q, r, y] != b"QRY".map(of_chips) {
        return Err(ModeError::NoAnswer);
    }
    // The query was answered, so the chips are not busy now. QEMU's are not ready in a
    // status that somebody has cleared.
    let is_clean = |word: &u32| [of_chips(READY), 0].contains(word);
    if first != array || !status.iter().all(is_clean) {
        return Err(ModeError::Busy);
    }
    let mut modes = Mode::ALL.into_iter().zip([array, status, identity, query]);
    let (mode, _) = (modes.find(|(_, sample)| *sample == found)).ok_or(ModeError::Busy)?;
    if modes.any(|(_, sample)| sample == found) {
        return Err(ModeError::Ambiguous);
    }
    // A power-on has them ready.
    match mode {
        Mode::Status if status[0] != of_chips(READY) => Err(ModeError::Busy),
        mode => Ok(mode),
    }
}
