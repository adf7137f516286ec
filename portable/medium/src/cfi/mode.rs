//! Determines a bank's mode, which chips do not report: compares the bytes read with
//! those of each mode.

use thiserror::Error;

use super::bank::{
    QUERY, QUERY_ADDRESS, READ_ARRAY, READ_IDENTITY, READ_STATUS, READY, all_ones, command_chips,
    replicate,
};
use super::{Geometry, Registers};

/// The mode of a bank, which determines the result of reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The flash contents.
    Array,
    /// The status of the chips, which is "ready" without errors.
    Status,
    /// The manufacturer and the device.
    Identity,
    /// The query table.
    Query,
}

/// The reason why a bank's mode cannot be determined or restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ModeError {
    /// The bank executes a command, has a suspended one, or reports an error.
    #[error("the flash is executing a command, or reports an error")]
    Busy,
    /// Several modes would read as these bytes.
    #[error("the flash's mode is unknown: its contents look like another mode's data")]
    Ambiguous,
    /// The chips no longer answer the query.
    #[error("the flash does not answer the query")]
    NoAnswer,
}

/// Offsets that differ between modes, in units of the bank's width: manufacturer and
/// device, the first letters of the query table, and an offset past both.
const SAMPLES: [u64; 6] = [0, 1, 0x10, 0x11, 0x12, 0x80];

type Sample = [u32; SAMPLES.len()];

fn sample(registers: &impl Registers) -> Sample {
    let width = u64::from(registers.width());
    SAMPLES.map(|place| registers.read(place * width))
}

impl Mode {
    const ALL: [Mode; 4] = [Mode::Array, Mode::Status, Mode::Identity, Mode::Query];

    /// The mode's number in a record.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Mode::Array => 0,
            Mode::Status => 1,
            Mode::Identity => 2,
            Mode::Query => 3,
        }
    }

    /// The mode with this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.number() == number)
    }
}

/// Selects a mode. The chips must not be executing another command.
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

/// Determines a bank's mode, and selects read-array mode.
///
/// The first write is a word of all ones. It is the read-array command. For chips that
/// wait for data to program, it is data that changes no bit; these chips do not read as
/// memory after it, which reveals them. The word goes to byte `offset`, which should be
/// blank: QEMU's chips would store it there if the OS was between the two writes of a
/// program command.
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
    // The query was answered, so the chips are not busy now. QEMU's chips are not ready
    // in a cleared status.
    let is_clean = |word: &u32| [of_chips(READY), 0].contains(word);
    if first != array || !status.iter().all(is_clean) {
        return Err(ModeError::Busy);
    }
    let mut modes = Mode::ALL.into_iter().zip([array, status, identity, query]);
    let (mode, _) = (modes.find(|(_, sample)| *sample == found)).ok_or(ModeError::Busy)?;
    if modes.any(|(_, sample)| sample == found) {
        return Err(ModeError::Ambiguous);
    }
    // After a power-on the chips are ready.
    match mode {
        Mode::Status if status[0] != of_chips(READY) => Err(ModeError::Busy),
        mode => Ok(mode),
    }
}
