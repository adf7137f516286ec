//! The parts of a 32-bit encoding: its fixed bits, and the format of its operands.

/// The place of the immediate (unprivileged specification, 2.2 and 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// No immediate.
    R,
    /// Bits 31 to 20, signed.
    I,
    /// A number of bits to shift, 0 to 63, in bits 25 to 20.
    Shift,
    /// Bits 31 to 20, unsigned: a CSR's number.
    Csr,
    /// A store's offset.
    S,
    /// A branch's offset.
    B,
    /// Bits 31 to 12.
    U,
    /// A jump's offset.
    J,
}

/// Fixed bits and their values.
pub(crate) type Fixed = (u32, u32);

const OPCODE: u32 = 0x7f;
const FUNCT3: u32 = 7 << 12;
const FUNCT7: u32 = 0x7f << 25;
const RD: u32 = 31 << 7;
const RS2: u32 = 31 << 20;

/// The opcode alone.
pub(crate) const fn opcode(opcode: u32) -> Fixed {
    (OPCODE, opcode)
}

pub(crate) const fn funct3(code: u32, funct3: u32) -> Fixed {
    (OPCODE | FUNCT3, code | funct3 << 12)
}

pub(crate) const fn funct7(code: u32, funct3: u32, funct7: u32) -> Fixed {
    (OPCODE | FUNCT3 | FUNCT7, code | funct3 << 12 | funct7 << 25)
}

/// A shift by 0 to 63: the upper six bits are fixed.
pub(crate) const fn funct6(code: u32, funct3: u32, funct6: u32) -> Fixed {
    (
        OPCODE | FUNCT3 | 0x3f << 26,
        code | funct3 << 12 | funct6 << 26,
    )
}

/// One source: the upper twelve bits are fixed.
pub(crate) const fn funct12(code: u32, funct3: u32, funct12: u32) -> Fixed {
    (
        OPCODE | FUNCT3 | 0xfff << 20,
        code | funct3 << 12 | funct12 << 20,
    )
}

/// An AMO; `aq` and `rl` are free.
pub(crate) const fn amo(funct3: u32, funct5: u32) -> Fixed {
    (
        OPCODE | FUNCT3 | 0x1f << 27,
        0x2f | funct3 << 12 | funct5 << 27,
    )
}

/// A load-reserved, without a second source.
pub(crate) const fn reserve(funct3: u32) -> Fixed {
    let (mask, value) = amo(funct3, 2);
    (mask | RS2, value)
}

/// Floating point with a free rounding mode.
pub(crate) const fn rounded(funct7: u32) -> Fixed {
    (OPCODE | FUNCT7, 0x53 | funct7 << 25)
}

/// The same with one source.
pub(crate) const fn rounded_one(funct7: u32, rs2: u32) -> Fixed {
    (OPCODE | FUNCT7 | RS2, 0x53 | funct7 << 25 | rs2 << 20)
}

/// Multiplication and addition; `format` is 0 for single and 1 for double precision.
pub(crate) const fn fused(code: u32, format: u32) -> Fixed {
    (OPCODE | 3 << 25, code | format << 25)
}

/// An instruction with `rs1` and an operation in the upper twelve bits.
pub(crate) const fn cache_block(operation: u32) -> Fixed {
    (
        OPCODE | FUNCT3 | RD | 0xfff << 20,
        0x0f | 2 << 12 | operation << 20,
    )
}

/// A fence with two sources.
pub(crate) const fn fence(funct7: u32) -> Fixed {
    (OPCODE | FUNCT3 | RD | FUNCT7, 0x73 | funct7 << 25)
}

pub(crate) const fn exact(bits: u32) -> Fixed {
    (u32::MAX, bits)
}
