//! Interrupt files of an IMSIC (AIA, chapter 3).

use core::iter::once;

use crate::{Keeper, Registers};

/// Maximum words of an interrupt file's state: 2047 identities.
pub const MAX_WORDS: usize = 2 + 2 * 32;

/// Indirect registers of an interrupt file (AIA, section 3.8), by their numbers in `*iselect`.
mod register {
    pub(super) const EIDELIVERY: u64 = 0x70;
    pub(super) const EITHRESHOLD: u64 = 0x72;
    /// Pending bits; on RV64 only even numbers exist, 64 identities each.
    pub(super) const EIP0: u64 = 0x80;
    /// Enable bits, in the same layout.
    pub(super) const EIE0: u64 = 0xc0;
}

/// EIDELIVERY: interrupts reach the hart (AIA, 3.8.1).
const DELIVER: u64 = 1;

/// An interrupt file of a hart. Its registers are the indirect ones: an access writes the number to
/// `*iselect`, then uses `*ireg`.
#[derive(Clone, Copy, Debug)]
pub struct InterruptFile<R> {
    registers: R,
    identities: u32,
}

impl<R: Registers<u64>> InterruptFile<R> {
    /// A file with this number of identities, at most 2047.
    pub fn new(registers: R, identities: u32) -> Self {
        InterruptFile {
            registers,
            identities,
        }
    }
}

impl<R> InterruptFile<R> {
    /// Another file of the hart, with the same number of identities.
    pub fn sibling<S>(&self, registers: S) -> InterruptFile<S> {
        InterruptFile {
            registers,
            identities: self.identities,
        }
    }
}

/// Enables delivery of one identity below 64, and disables the others below 64.
pub fn open(file: &impl Registers<u64>, identity: u32) {
    file.write(register::EITHRESHOLD, 0);
    file.write(register::EIE0, 1 << identity);
    file.write(register::EIDELIVERY, DELIVER);
}

/// Enables delivery of another identity below 64.
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

    /// The threshold, then pending and enable bits for each 64 identities. Delivery is enabled
    /// last, so that a partly restored file delivers nothing. Pending bits are kept: they came as
    /// messages, which no device sends again.
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
