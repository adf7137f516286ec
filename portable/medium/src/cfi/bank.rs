use poorwill_clock::{Clock, wait_for};

use super::query::{Geometry, Table};
use super::{CfiError, Registers};
use crate::wait::Wait;

/// Commands; each chip gets them in the lowest byte of its lanes.
pub(super) const READ_ARRAY: u8 = 0xff;
pub(super) const READ_IDENTITY: u8 = 0x90;
pub(super) const QUERY: u8 = 0x98;
pub(super) const READ_STATUS: u8 = 0x70;
const CLEAR_STATUS: u8 = 0x50;
const PROGRAM: u8 = 0x40;
const ERASE: u8 = 0x20;
const LOCK_SETUP: u8 = 0x60;
const CONFIRM: u8 = 0xd0;

pub(super) const READY: u8 = 1 << 7;
const ERASE_ERROR: u8 = 1 << 5;
const PROGRAM_ERROR: u8 = 1 << 4;
const VOLTAGE_ERROR: u8 = 1 << 3;
const LOCKED: u8 = 1 << 1;

/// The address of the query command, in units of the bank's width.
pub(super) const QUERY_ADDRESS: u64 = 0x55;

/// Maximum wait for an answer to the query, in ms. It allows for an erase that the OS began before
/// a reset.
const ANSWER_MS: u64 = 1000;

/// The longest time to unlock a block, in ms.
const UNLOCK_MS: u64 = 100;

/// A bank of flash.
#[derive(Debug)]
pub struct Cfi<R, K> {
    registers: R,
    clock: K,
    geometry: Geometry,
}

impl<R: Registers, K: Clock> Cfi<R, K> {
    /// Takes over the bank at `registers` in any mode, and leaves it in read-array mode.
    ///
    /// # Errors
    ///
    /// [`CfiError::NotCfi`], [`CfiError::CommandSet`], [`CfiError::Mixed`],
    /// [`CfiError::Width`], [`CfiError::Geometry`], [`CfiError::Registers`].
    pub fn start(registers: R, clock: K) -> Result<Self, CfiError> {
        let width = registers.width();
        if ![1, 2, 4].contains(&width) {
            return Err(CfiError::Width(width));
        }
        let needed = 0x100 * u64::from(width);
        let given = registers.length();
        if given < needed {
            return Err(CfiError::Registers { needed, given });
        }
        // Two chips can look like one wide chip while one of them is busy. So a chip
        // smaller than the bus is not accepted at once.
        let mut smaller = None;
        let answer = wait_for(&clock, (Wait::Flash(0), ANSWER_MS), || {
            match ask(&registers) {
                Ok(Some(geometry)) if geometry.bytes < given => {
                    smaller = Some(geometry.bytes);
                    None
                }
                other => other.transpose(),
            }
        });
        let geometry = match (answer, smaller) {
            (Some(geometry), _) => geometry?,
            (None, Some(needed)) => return Err(CfiError::Registers { needed, given }),
            (None, None) => return Err(CfiError::NotCfi),
        };
        if geometry.bytes > given {
            let needed = geometry.bytes;
            return Err(CfiError::Registers { needed, given });
        }
        Ok(Cfi {
            registers,
            clock,
            geometry,
        })
    }

    /// The bank's chips and blocks.
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(super) fn width(&self) -> usize {
        usize::from(self.registers.width())
    }

    /// Reads bytes from `offset`. Offset and length are multiples of the width.
    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) {
        let width = self.width();
        if width == size_of::<u32>() {
            // Each start reads a vault completely, so this loop avoids a call for each
            // word.
            let words = bytes.as_chunks_mut().0.iter_mut();
            for (word, offset) in words.zip((offset..).step_by(size_of::<u32>())) {
                *word = self.registers.read(offset).to_le_bytes();
            }
            return;
        }
        for (word, offset) in bytes.chunks_exact_mut(width).zip((offset..).step_by(width)) {
            let value = self.registers.read(offset).to_le_bytes();
            word.copy_from_slice(&value[..width]);
        }
    }

    /// Programs the word at `offset` in an unlocked block: clears the bits that are clear
    /// in `word`, which is one access long. Leaves the bank in status mode.
    pub(super) fn program(&self, offset: u64, word: &[u8]) -> Result<(), CfiError> {
        let mut value = [0; 4];
        value[..word.len()].copy_from_slice(word);
        self.command(offset, PROGRAM);
        self.registers.write(offset, u32::from_le_bytes(value));
        self.finish(
            offset,
            self.geometry.program_ms,
            CfiError::ProgramFailed(offset),
        )
    }

    /// Erases the unlocked block at `offset`. Leaves the bank in status mode.
    pub(super) fn erase(&self, offset: u64) -> Result<(), CfiError> {
        self.command(offset, ERASE);
        self.command(offset, CONFIRM);
        self.finish(
            offset,
            self.geometry.erase_ms,
            CfiError::EraseFailed(offset),
        )
    }

    /// Unlocks the block at `block` if the bank supports that. Leaves the bank in status
    /// mode.
    pub(super) fn unlock(&self, block: u64) -> Result<(), CfiError> {
        if !self.geometry.can_unlock {
            return Ok(());
        }
        self.command(block, LOCK_SETUP);
        self.command(block, CONFIRM);
        self.finish(block, UNLOCK_MS, CfiError::Protected(block))
    }

    /// Ends an operation: clears errors, and selects read-array mode.
    pub(super) fn read_array(&self) {
        self.command(0, CLEAR_STATUS);
        self.command(0, READ_ARRAY);
    }

    fn command(&self, offset: u64, command: u8) {
        command_chips(&self.registers, self.geometry.chip_width, offset, command);
    }

    /// Waits until all chips are ready, and returns an error that any of them reports.
    fn finish(&self, offset: u64, limit: u64, failed: CfiError) -> Result<(), CfiError> {
        self.command(offset, READ_STATUS);
        let status = wait_for(&self.clock, (Wait::Flash(offset), limit), || {
            let statuses = self.statuses(offset);
            statuses
                .clone()
                .all(|status| status & READY != 0)
                .then(|| statuses.fold(0, |all, status| all | status))
        });
        let Some(status) = status else {
            return Err(CfiError::TimedOut {
                offset,
                milliseconds: u32::try_from(limit).unwrap_or(u32::MAX),
            });
        };
        let is = |bits| status & bits == bits;
        if is(VOLTAGE_ERROR) {
            Err(CfiError::Voltage(offset))
        } else if is(LOCKED) {
            Err(CfiError::Protected(offset))
        } else if is(ERASE_ERROR | PROGRAM_ERROR) {
            Err(CfiError::Sequence(offset))
        } else if is(ERASE_ERROR) || is(PROGRAM_ERROR) {
            Err(failed)
        } else {
            Ok(())
        }
    }

    fn statuses(&self, offset: u64) -> impl Iterator<Item = u8> + Clone + use<R, K> {
        let value = self.registers.read(offset).to_le_bytes();
        let (width, chip) = (self.registers.width(), self.geometry.chip_width);
        (0..width)
            .step_by(usize::from(chip))
            .map(move |lane| value[usize::from(lane)])
    }
}

/// Queries each arrangement of chips, starting with the narrowest, because wide chips
/// ignore the upper bits of a command. `None`: no answer.
fn ask(registers: &impl Registers) -> Result<Option<Geometry>, CfiError> {
    let width = registers.width();
    for chip in [1, 2, 4].into_iter().filter(|&chip| chip <= width) {
        restore(registers, chip);
        let address = QUERY_ADDRESS * u64::from(width);
        command_chips(registers, chip, address, QUERY);
        let table = Table {
            byte: |offset| query_byte(registers, chip, offset),
            chip_width: chip,
            chips: width / chip,
        };
        let geometry = table.is_there().then(|| table.read());
        restore(registers, chip);
        if let Some(geometry) = geometry {
            return geometry.map(Some);
        }
    }
    Ok(None)
}

/// The byte at `offset` of the query table. Each chip returns it in the lowest byte of
/// its lanes, with zeros above.
fn query_byte(registers: &impl Registers, chip: u8, offset: u64) -> Result<u8, CfiError> {
    let width = registers.width();
    let value = registers.read(offset * u64::from(width));
    let [byte, ..] = value.to_le_bytes();
    if value == replicate(width, chip, byte) {
        Ok(byte)
    } else {
        Err(CfiError::Mixed)
    }
}

/// Selects read-array mode, from any mode and for any kind of chip. A running erase
/// continues until it is done.
pub fn read_array(registers: &impl Registers) {
    restore(registers, registers.width());
}

/// Whether a bank reads as zeros at all `offsets`, in its current mode and in read-array
/// mode. Erased flash never does, but a bank of QEMU without a backing file does.
pub fn reads_as_zeros(
    registers: &impl Registers,
    offsets: impl Iterator<Item = u64> + Clone,
) -> bool {
    let is_zero = |offset| registers.read(offset) == 0;
    offsets.clone().all(is_zero) && {
        read_array(registers);
        offsets.clone().all(is_zero)
    }
}

/// Selects read-array mode, from any mode. The first word is all ones: it is the
/// read-array command, and a chip that waits for data to program changes no bit by it.
/// Then errors are cleared, if there are any. This check is necessary because QEMU's
/// chips never become ready in a cleared status.
fn restore(registers: &impl Registers, chip: u8) {
    let width = registers.width();
    registers.write(0, all_ones(width));
    registers.write(0, all_ones(width));
    command_chips(registers, chip, 0, READ_STATUS);
    if registers.read(0) & replicate(width, 1, !READY) != 0 {
        command_chips(registers, chip, 0, CLEAR_STATUS);
    }
    registers.write(0, all_ones(width));
    command_chips(registers, chip, 0, READ_ARRAY);
}

pub(super) fn all_ones(width: u8) -> u32 {
    u32::MAX >> (32 - 8 * u32::from(width))
}

pub(super) fn command_chips(registers: &impl Registers, chip: u8, offset: u64, command: u8) {
    let width = registers.width();
    registers.write(offset, replicate(width, chip, command));
}

/// `byte` in the lowest byte of each chip's lanes.
pub(super) fn replicate(width: u8, chip: u8, byte: u8) -> u32 {
    let mut value = [0; 4];
    for lane in (0..width).step_by(usize::from(chip)) {
        value[usize::from(lane)] = byte;
    }
    u32::from_le_bytes(value)
}
