//! Interrupt files of an IMSIC (AIA, chapter 3).

use core::iter::once;

use crate::{Keeper, Registers};

/// Most words that the state of an interrupt file has: that of 2047 identities.
pub const MAX_WORDS: usize = 2 + 2 * 32;

/// Indirect registers of an interrupt file (AIA, section 3.8), by the numbers that
/// `*iselect` takes.
mod register {
    pub(super) const EIDELIVERY: u64 = 0x70;
    pub(super) const EITHRESHOLD: u64 = 0x72;
    /// Pending bits; on RV64 only even numbers exist, 64 identities each.
    pub(super) const EIP0: u64 = 0x80;
    /// Enable bits, likewise.
    pub(super) const EIE0: u64 = 0xc0;
}

/// EIDELIVERY: the file's interrupts reach the hart (AIA, 3.8.1).
const DELIVER: u64 = 1;

/// An interrupt file of a hart. Its "registers" are its indirect ones, by number:
/// `*iselect` is written with the offset, and `*ireg` accessed.
#[derive(Debug)]
pub struct InterruptFile<R> {
    registers: R,
    /// The highest identity.
    identities: u32,
}

impl<R: Registers<u64>> InterruptFile<R> {
    /// A file of that many identities, at most 2047.
    pub fn new(registers: R, identities: u32) -> Self {
        InterruptFile {
            registers,
            identities,
        }
    }
}

impl<R> InterruptFile<R> {
    /// Another file of the hart, with as many identities.
    pub fn sibling<S>(&self, registers: S) -> InterruptFile<S> {
        InterruptFile {
            registers,
            identities: self.identities,
        }
    }
}

/// Enables delivery of one identity below 64, and of no other of these.
pub fn open(file: &impl Registers<u64>, identity: u32) {
    file.write(register::EITHRESHOLD, 0);
    file.write(register::EIE0, 1 << identity);
    file.write(register::EIDELIVERY, DELIVER);
}

/// Enables delivery of one more.
pub fn open_also(file: &impl Registers<u64>, identity: u32) {
    let enabled = file.read(register::EIE0);
    file.write(register::EIE0, enabled | 1 << identity);
}

impl<R: Registers<u64>> Keeper for InterruptFile<R> {
    type Word = u64;
    const TAG: u32 = u32::from_le_bytes(*b"IMSI");
    const VERSION: u16 = 1;

    fn registers(&self) -> &impl Registers<u64> {
        &self.registers
    }

    /// The threshold, then for each 64 identities the pending and the enabled ones.
    /// Delivery is enabled last, so that nothing is delivered from a file that is half restored.
    /// Pending bits are kept: they came as messages, which no wire raises again.
    fn offsets(&self) -> impl Iterator<Item = u64> {
        let groups = u64::from(self.identities / 64 + 1);
        let bits =
            (0..groups).flat_map(|group| [register::EIP0 + 2 * group, register::EIE0 + 2 * group]);
        once(register::EITHRESHOLD)
            .chain(bits)
            .chain([register::EIDELIVERY])
    }
}

#[cfg(test)]
mod tests;
