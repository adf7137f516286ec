//! Compressed instructions (unprivileged specification, chapter 28), and Zcb's.

use crate::encode::{b, i, j, r, s, u};
use crate::forms::Operation;

// Fixed bits of the instructions that compressed ones stand for.
const LBU: u32 = Operation::Lbu.encoding();
const LH: u32 = Operation::Lh.encoding();
const LHU: u32 = Operation::Lhu.encoding();
const LW: u32 = Operation::Lw.encoding();
const LD: u32 = Operation::Ld.encoding();
const FLD: u32 = Operation::Fld.encoding();
const SB: u32 = Operation::Sb.encoding();
const SH: u32 = Operation::Sh.encoding();
const SW: u32 = Operation::Sw.encoding();
const SD: u32 = Operation::Sd.encoding();
const FSD: u32 = Operation::Fsd.encoding();
const ADDI: u32 = Operation::Addi.encoding();
const ADDIW: u32 = Operation::Addiw.encoding();
const SLLI: u32 = Operation::Slli.encoding();
const SRLI: u32 = Operation::Srli.encoding();
const SRAI: u32 = Operation::Srai.encoding();
const XORI: u32 = Operation::Xori.encoding();
const ANDI: u32 = Operation::Andi.encoding();
const LUI: u32 = Operation::Lui.encoding();
const ADD: u32 = Operation::Add.encoding();
const SUB: u32 = Operation::Sub.encoding();
const XOR: u32 = Operation::Xor.encoding();
const OR: u32 = Operation::Or.encoding();
const AND: u32 = Operation::And.encoding();
const MUL: u32 = Operation::Mul.encoding();
const ADDW: u32 = Operation::Addw.encoding();
const SUBW: u32 = Operation::Subw.encoding();
const ADD_UW: u32 = Operation::AddUw.encoding();
const ZEXT_H: u32 = Operation::ZextH.encoding();
const SEXT_B: u32 = Operation::SextB.encoding();
const SEXT_H: u32 = Operation::SextH.encoding();
const BEQ: u32 = Operation::Beq.encoding();
const BNE: u32 = Operation::Bne.encoding();
const JALR: u32 = Operation::Jalr.encoding();
const JAL: u32 = Operation::Jal.encoding();
const EBREAK: u32 = Operation::Ebreak.encoding();

const ZERO: u32 = 0;
const RA: u32 = 1;
const SP: u32 = 2;

/// A compressed instruction.
#[derive(Clone, Copy)]
struct Short(u32);

impl Short {
    /// Bits `from` and up, `count` of them, at place `to`.
    fn part(self, from: u32, count: u32, to: u32) -> u32 {
        (self.0 >> from & ((1 << count) - 1)) << to
    }

    /// A register of the eight, x8 to x15.
    fn register(self, from: u32) -> u32 {
        8 + self.part(from, 3, 0)
    }

    /// Destination and source in bits 11 to 7.
    fn rd(self) -> u32 {
        self.part(7, 5, 0)
    }

    fn rs2(self) -> u32 {
        self.part(2, 5, 0)
    }

    /// Bits 12 and 6 to 2.
    fn six(self) -> u32 {
        self.part(12, 1, 5) | self.part(2, 5, 0)
    }

    fn signed_six(self) -> i32 {
        signed(self.six(), 6)
    }

    fn word_offset(self) -> i32 {
        (self.part(10, 3, 3) | self.part(6, 1, 2) | self.part(5, 1, 6)) as i32
    }

    fn double_offset(self) -> i32 {
        (self.part(10, 3, 3) | self.part(5, 2, 6)) as i32
    }

    fn branch_offset(self) -> i32 {
        let offset = self.part(12, 1, 8) | self.part(10, 2, 3) | self.part(5, 2, 6);
        signed(offset | self.part(3, 2, 1) | self.part(2, 1, 5), 9)
    }

    fn jump_offset(self) -> i32 {
        let high = self.part(12, 1, 11) | self.part(8, 1, 10) | self.part(9, 2, 8);
        let middle = self.part(6, 1, 7) | self.part(7, 1, 6) | self.part(2, 1, 5);
        signed(high | middle | self.part(11, 1, 4) | self.part(3, 3, 1), 12)
    }
}

/// The number in the low `bits` bits, with its sign.
fn signed(value: u32, bits: u32) -> i32 {
    let unused = u32::BITS - bits;
    (value << unused).cast_signed() >> unused
}

/// Expands a compressed instruction to the 32-bit one that it stands for; `None` if it is reserved
/// or unknown. Hints have no effect, by the expansion.
#[must_use]
pub fn expand(bits: u16) -> Option<u32> {
    let short = Short(bits.into());
    match bits & 3 {
        0 => quadrant_0(short),
        1 => quadrant_1(short),
        2 => quadrant_2(short),
        _ => None,
    }
}

fn quadrant_0(short: Short) -> Option<u32> {
    let base = short.register(7);
    let register = short.register(2);
    let word = short.word_offset();
    let double = short.double_offset();
    Some(match short.part(13, 3, 0) {
        0 => {
            let high = short.part(7, 4, 6) | short.part(11, 2, 4);
            let offset = high | short.part(6, 1, 2) | short.part(5, 1, 3);
            // Zero is the illegal instruction.
            (offset != 0).then(|| i(ADDI, register, SP, offset as i32))?
        }
        1 => i(FLD, register, base, double),
        2 => i(LW, register, base, word),
        3 => i(LD, register, base, double),
        4 => return small(short, base, register),
        5 => s(FSD, base, register, double),
        6 => s(SW, base, register, word),
        _ => s(SD, base, register, double),
    })
}

/// Zcb's loads and stores of bytes and half-words.
fn small(short: Short, base: u32, register: u32) -> Option<u32> {
    let byte = (short.part(6, 1, 0) | short.part(5, 1, 1)) as i32;
    let half = short.part(5, 1, 1) as i32;
    let is_second = short.part(6, 1, 0) != 0;
    Some(match (short.part(10, 3, 0), is_second) {
        (0, _) => i(LBU, register, base, byte),
        (1, false) => i(LHU, register, base, half),
        (1, true) => i(LH, register, base, half),
        (2, _) => s(SB, base, register, byte),
        (3, false) => s(SH, base, register, half),
        _ => return None,
    })
}

fn quadrant_1(short: Short) -> Option<u32> {
    let rd = short.rd();
    let number = short.signed_six();
    Some(match short.part(13, 3, 0) {
        0 => i(ADDI, rd, rd, number),
        // Reserved for x0.
        1 => (rd != 0).then(|| i(ADDIW, rd, rd, number))?,
        2 => i(ADDI, rd, ZERO, number),
        3 if rd == SP => {
            let high = short.part(12, 1, 9) | short.part(3, 2, 7) | short.part(5, 1, 6);
            let offset = high | short.part(2, 1, 5) | short.part(6, 1, 4);
            (offset != 0).then(|| i(ADDI, SP, SP, signed(offset, 10)))?
        }
        3 => (number != 0).then(|| u(LUI, rd, number << 12))?,
        4 => return arithmetic(short),
        5 => j(JAL, ZERO, short.jump_offset()),
        6 => b(BEQ, short.register(7), ZERO, short.branch_offset()),
        _ => b(BNE, short.register(7), ZERO, short.branch_offset()),
    })
}

fn arithmetic(short: Short) -> Option<u32> {
    let rd = short.register(7);
    let rs2 = short.register(2);
    let kind = short.part(10, 2, 0);
    match kind {
        0 => return Some(i(SRLI, rd, rd, short.six() as i32)),
        1 => return Some(i(SRAI, rd, rd, short.six() as i32)),
        2 => return Some(i(ANDI, rd, rd, short.signed_six())),
        _ => {}
    }
    let value = match (short.part(12, 1, 0), short.part(5, 2, 0)) {
        (0, 0) => SUB,
        (0, 1) => XOR,
        (0, 2) => OR,
        (0, _) => AND,
        (_, 0) => SUBW,
        (_, 1) => ADDW,
        (_, 2) => MUL,
        _ => return extension(short.part(2, 3, 0), rd),
    };
    Some(r(value, rd, rd, rs2))
}

/// Zcb's extensions and complement.
fn extension(kind: u32, rd: u32) -> Option<u32> {
    Some(match kind {
        0 => i(ANDI, rd, rd, 0xff),
        1 => r(SEXT_B, rd, rd, 0),
        2 => r(ZEXT_H, rd, rd, 0),
        3 => r(SEXT_H, rd, rd, 0),
        4 => r(ADD_UW, rd, rd, ZERO),
        5 => i(XORI, rd, rd, -1),
        _ => return None,
    })
}

fn quadrant_2(short: Short) -> Option<u32> {
    let rd = short.rd();
    let rs2 = short.rs2();
    let bit_5 = short.part(12, 1, 5);
    let word = (bit_5 | short.part(4, 3, 2) | short.part(2, 2, 6)) as i32;
    let double = (bit_5 | short.part(5, 2, 3) | short.part(2, 3, 6)) as i32;
    let store_word = (short.part(9, 4, 2) | short.part(7, 2, 6)) as i32;
    let store_double = (short.part(10, 3, 3) | short.part(7, 3, 6)) as i32;
    Some(match short.part(13, 3, 0) {
        0 => i(SLLI, rd, rd, short.six() as i32),
        1 => i(FLD, rd, SP, double),
        // Reserved for x0.
        2 => (rd != 0).then(|| i(LW, rd, SP, word))?,
        3 => (rd != 0).then(|| i(LD, rd, SP, double))?,
        4 => match (bit_5 != 0, rd, rs2) {
            (false, 0, 0) => return None,
            (false, _, 0) => i(JALR, ZERO, rd, 0),
            (false, ..) => r(ADD, rd, ZERO, rs2),
            (true, 0, 0) => EBREAK,
            (true, _, 0) => i(JALR, RA, rd, 0),
            (true, ..) => r(ADD, rd, rd, rs2),
        },
        5 => s(FSD, SP, rs2, store_double),
        6 => s(SW, SP, rs2, store_word),
        _ => s(SD, SP, rs2, store_double),
    })
}
