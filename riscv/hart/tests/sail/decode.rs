//! Sail's decoding of loads and stores of integer registers.
//!
//! `softcore-rv64` decodes 32-bit instructions. It lacks `encdec_compressed`, so the clauses are
//! here as the Sail model has them (`zca_insts.sail`, `zcb_insts.sail`).

use std::sync::LazyLock;

use softcore_rv64::prelude::bv;
use softcore_rv64::raw::{regidx, size_bytes_forwards, word_width};
use softcore_rv64::{Core, ast};

/// A clause of `encdec_compressed`, and the instruction that it executes as. The zero in
/// `uimm1 @ 0b0` of Zcb's half-words is here in `uimm`.
struct Clause {
    name: &'static str,
    bits: &'static str,
    /// Number of zeros after `uimm` in the offset.
    scale: u32,
    operation: Operation,
    width: word_width,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Load { is_unsigned: bool },
    Store,
}

const SIGNED: Operation = Operation::Load { is_unsigned: false };
const UNSIGNED: Operation = Operation::Load { is_unsigned: true };
const STORE: Operation = Operation::Store;

const fn clause(
    name: &'static str,
    bits: &'static str,
    scale: u32,
    operation: Operation,
    width: word_width,
) -> Clause {
    Clause {
        name,
        bits,
        scale,
        operation,
        width,
    }
}

const CLAUSES: [Clause; 13] = [
    clause(
        "C_LW",
        "0b010 @ uimm[3..1] @ encdec_creg(rs1) @ uimm[0] @ uimm[4] @ encdec_creg(rd) @ 0b00",
        2,
        SIGNED,
        word_width::WORD,
    ),
    clause(
        "C_LD",
        "0b011 @ uimm[2..0] @ encdec_creg(rs1) @ uimm[4..3] @ encdec_creg(rd) @ 0b00",
        3,
        SIGNED,
        word_width::DOUBLE,
    ),
    clause(
        "C_SW",
        "0b110 @ uimm[3..1] @ encdec_creg(rs1) @ uimm[0] @ uimm[4] @ encdec_creg(rs2) @ 0b00",
        2,
        STORE,
        word_width::WORD,
    ),
    clause(
        "C_SD",
        "0b111 @ uimm[2..0] @ encdec_creg(rs1) @ uimm[4..3] @ encdec_creg(rs2) @ 0b00",
        3,
        STORE,
        word_width::DOUBLE,
    ),
    clause(
        "C_LWSP",
        "0b010 @ uimm[3] @ encdec_reg(rd) @ uimm[2..0] @ uimm[5..4] @ 0b10",
        2,
        SIGNED,
        word_width::WORD,
    ),
    clause(
        "C_LDSP",
        "0b011 @ uimm[2] @ encdec_reg(rd) @ uimm[1..0] @ uimm[5..3] @ 0b10",
        3,
        SIGNED,
        word_width::DOUBLE,
    ),
    clause(
        "C_SWSP",
        "0b110 @ uimm[3..0] @ uimm[5..4] @ encdec_reg(rs2) @ 0b10",
        2,
        STORE,
        word_width::WORD,
    ),
    clause(
        "C_SDSP",
        "0b111 @ uimm[2..0] @ uimm[5..3] @ encdec_reg(rs2) @ 0b10",
        3,
        STORE,
        word_width::DOUBLE,
    ),
    clause(
        "C_LBU",
        "0b100 @ 0b000 @ encdec_creg(rs1) @ uimm[0] @ uimm[1] @ encdec_creg(rd) @ 0b00",
        0,
        UNSIGNED,
        word_width::BYTE,
    ),
    clause(
        "C_LHU",
        "0b100 @ 0b001 @ encdec_creg(rs1) @ 0b0 @ uimm[1] @ encdec_creg(rd) @ 0b00",
        0,
        UNSIGNED,
        word_width::HALF,
    ),
    clause(
        "C_LH",
        "0b100 @ 0b001 @ encdec_creg(rs1) @ 0b1 @ uimm[1] @ encdec_creg(rd) @ 0b00",
        0,
        SIGNED,
        word_width::HALF,
    ),
    clause(
        "C_SB",
        "0b100 @ 0b010 @ encdec_creg(rs1) @ uimm[0] @ uimm[1] @ encdec_creg(rs2) @ 0b00",
        0,
        STORE,
        word_width::BYTE,
    ),
    clause(
        "C_SH",
        "0b100 @ 0b011 @ encdec_creg(rs1) @ 0b0 @ uimm[1] @ encdec_creg(rs2) @ 0b00",
        0,
        STORE,
        word_width::HALF,
    ),
];

/// A clause, parsed.
#[derive(Default)]
struct Pattern {
    /// Fixed bits, and their values.
    mask: u32,
    value: u32,
    /// Bits of the instruction, and the bits of `uimm` that they hold.
    uimm: Vec<(u32, u32)>,
    /// The lowest bit of each register and its number's first value, width included.
    rs1: Option<Register>,
    other: Option<Register>,
}

/// A register's field.
#[derive(Clone, Copy)]
struct Register {
    lowest: u32,
    /// `encdec_creg`: three bits, from x8 on.
    short: bool,
}

impl Register {
    fn of(self, instruction: u32) -> u32 {
        let field = instruction >> self.lowest;
        if self.short {
            8 + (field & 7)
        } else {
            field & 31
        }
    }
}

static PATTERNS: LazyLock<[Pattern; 13]> = LazyLock::new(|| CLAUSES.map(|clause| parse(&clause)));

fn parse(clause: &Clause) -> Pattern {
    let mut pattern = Pattern::default();
    let mut at = 16;
    for field in clause.bits.split(" @ ") {
        if let Some(fixed) = field.strip_prefix("0b") {
            at -= fixed.len() as u32;
            pattern.mask |= ((1 << fixed.len()) - 1) << at;
            pattern.value |= u32::from_str_radix(fixed, 2).unwrap() << at;
        } else if let Some(range) = field.strip_prefix("uimm[") {
            let range = range.strip_suffix(']').unwrap();
            let (high, low) = range.split_once("..").unwrap_or((range, range));
            let (high, low): (u32, u32) = (high.parse().unwrap(), low.parse().unwrap());
            for bit in (low..=high).rev() {
                at -= 1;
                pattern.uimm.push((at, bit));
            }
        } else {
            let short = field.starts_with("encdec_creg(");
            at -= if short { 3 } else { 5 };
            let register = Some(Register { lowest: at, short });
            if field.ends_with("(rs1)") {
                pattern.rs1 = register;
            } else {
                pattern.other = register;
            }
        }
    }
    assert_eq!(at, 0, "{}", clause.name);
    pattern
}

/// The instruction, with the name of its form; of another than a load or store, `None`.
pub(crate) fn decode(core: &mut Core, bits: u32) -> Option<(&'static str, ast)> {
    if bits & 3 == 3 {
        let decoded = core.decode_instr(bits);
        return Some((long_name(&decoded)?, decoded));
    }
    let is_of = |pattern: &Pattern| bits & pattern.mask == pattern.value;
    let number = PATTERNS.iter().position(is_of)?;
    let (clause, pattern) = (&CLAUSES[number], &PATTERNS[number]);
    let set = |of: &(u32, u32)| (bits >> of.0 & 1) << of.1;
    let uimm: u32 = pattern.uimm.iter().map(set).sum();
    let imm = bv((uimm << clause.scale).into());
    let register = |number: u32| regidx::new(number as u8);
    // Quadrant 2 has the stack pointer.
    let rs1 = register(pattern.rs1.map_or(2, |field| field.of(bits)));
    let other = pattern.other?.of(bits);
    // `when rd != zreg`: a short register is never zero.
    if matches!(clause.operation, Operation::Load { .. }) && other == 0 {
        return None;
    }
    let (other, width) = (register(other), clause.width);
    let expanded = match clause.operation {
        Operation::Load { is_unsigned } => {
            ast::LOAD((imm, rs1, other, is_unsigned, width, false, false))
        }
        Operation::Store => ast::STORE((imm, other, rs1, width, false, false)),
    };
    Some((clause.name, expanded))
}

fn long_name(decoded: &ast) -> Option<&'static str> {
    Some(match decoded {
        ast::LOAD((_, _, _, is_unsigned, width, ..)) => match (width, is_unsigned) {
            (word_width::BYTE, false) => "LB",
            (word_width::HALF, false) => "LH",
            (word_width::WORD, false) => "LW",
            (word_width::DOUBLE, _) => "LD",
            (word_width::BYTE, true) => "LBU",
            (word_width::HALF, true) => "LHU",
            (word_width::WORD, true) => "LWU",
        },
        ast::STORE((_, _, _, width, ..)) => match width {
            word_width::BYTE => "SB",
            word_width::HALF => "SH",
            word_width::WORD => "SW",
            word_width::DOUBLE => "SD",
        },
        _ => return None,
    })
}

/// Number of the names.
pub(crate) const FORMS: usize = 11 + CLAUSES.len();

/// Bytes of an access.
pub(crate) fn bytes(width: word_width) -> u64 {
    size_bytes_forwards(width) as u64
}
