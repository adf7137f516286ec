//! The hart's interrupt file (RISC-V AIA 1.0, chapter 3).
#![allow(missing_docs, reason = "the specification has the registers' names")]

use core::arch::asm;

use crate::{read_csr, write_csr};

// Numbers of registers for `siselect` (3.8). EIP0 and EIE0 have 64 identities.
pub const EIDELIVERY: usize = 0x70;
pub const EITHRESHOLD: usize = 0x72;
pub const EIP0: usize = 0x80;
pub const EIE0: usize = 0xc0;

/// Reads a register of the file.
#[inline]
pub fn read(register: usize) -> usize {
    write_csr!("siselect", register);
    read_csr!("sireg")
}

/// Writes a register of the file.
#[inline]
pub fn write(register: usize, value: usize) {
    write_csr!("siselect", register);
    write_csr!("sireg", value);
}

/// Takes the pending external interrupt of the lowest identity.
#[inline]
pub fn claim() -> Option<usize> {
    let top: usize;
    // SAFETY: the write clears the pending bit of the identity that the read returns.
    unsafe { asm!("csrrw {}, 0x15c, zero", out(reg) top) };
    (top != 0).then_some(top >> 16)
}
