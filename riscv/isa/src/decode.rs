use crate::compressed::expand;
use crate::form::Format;
use crate::forms::{COUNT, FORMS, Form, OPCODES, Operation};

/// Index of the first form of each opcode (bits 6 to 2), and the number of all forms.
const OF_OPCODE: [u8; 33] = {
    let mut first = [0; 33];
    let mut opcode = 0;
    let mut form = 0;
    while opcode < 33 {
        while form < COUNT && (OPCODES[form] as usize) < opcode {
            form += 1;
        }
        first[opcode] = form as u8;
        opcode += 1;
    }
    let mut form = 1;
    while form < COUNT {
        assert!(OPCODES[form - 1] <= OPCODES[form], "the table ascends");
        form += 1;
    }
    first
};

/// Index of the first form of each opcode that may have these bits 14 to 12.
static FIRST: [[u8; 8]; 32] = {
    let mut first = [[0; 8]; 32];
    let mut opcode = 0;
    while opcode < 32 {
        let mut bits = 0;
        while bits < 8 {
            let mut form = OF_OPCODE[opcode];
            while form < OF_OPCODE[opcode + 1] {
                let Form { mask, value, .. } = FORMS[form as usize];
                if (value ^ bits << 12) & mask & 7 << 12 == 0 {
                    break;
                }
                form += 1;
            }
            first[opcode][bits as usize] = form;
            bits += 1;
        }
        opcode += 1;
    }
    first
};

/// A decoded instruction. Registers that its operation lacks have any number, and an immediate that
/// it lacks is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub operation: Operation,
    /// Bytes of the instruction: 2 or 4.
    pub length: u8,
    /// Destination.
    pub rd: u8,
    /// First source; with CSRs also an immediate.
    pub rs1: u8,
    /// Second source.
    pub rs2: u8,
    /// Third source.
    pub rs3: u8,
    /// The immediate, or a CSR's number.
    pub immediate: i32,
}

/// Returns whether these are the low bits of a 32-bit instruction. Longer instructions do not exist
/// here.
#[must_use]
pub const fn is_long(low: u32) -> bool {
    low & 3 == 3
}

impl Instruction {
    /// Decodes the instruction in the low bits; `None` if it is unknown.
    #[must_use]
    pub fn decode(bits: u32) -> Option<Self> {
        match is_long(bits) {
            true => Self::decode_expanded(bits, 4),
            false => Self::decode_expanded(expand(bits as u16)?, 2),
        }
    }

    /// Decodes a 32-bit instruction, which may be [expanded](expand) from one of this length.
    #[must_use]
    #[inline]
    pub fn decode_expanded(bits: u32, length: u8) -> Option<Self> {
        let opcode = (bits >> 2 & 31) as usize;
        let first = FIRST[opcode][(bits >> 12 & 7) as usize];
        let forms = usize::from(first)..usize::from(OF_OPCODE[opcode + 1]);
        let mut forms = FORMS[forms].iter();
        let form = forms.find(|form| bits & form.mask == form.value)?;
        let register = |from: u32| (bits >> from & 31) as u8;
        Some(Instruction {
            operation: form.operation,
            length,
            rd: register(7),
            rs1: register(15),
            rs2: register(20),
            rs3: register(27),
            immediate: immediate(bits, form.format),
        })
    }
}

fn immediate(bits: u32, format: Format) -> i32 {
    let signed = bits.cast_signed();
    // Bits `from` and up, `count` of them, at place `to`.
    let part = |from: u32, count: u32, to: u32| ((bits >> from & ((1 << count) - 1)) << to) as i32;
    match format {
        Format::R => 0,
        Format::I => signed >> 20,
        Format::Shift => part(20, 6, 0),
        Format::Csr => part(20, 12, 0),
        Format::S => signed >> 25 << 5 | part(7, 5, 0),
        Format::B => signed >> 31 << 12 | part(7, 1, 11) | part(25, 6, 5) | part(8, 4, 1),
        Format::U => signed & !0xfff,
        Format::J => signed >> 31 << 20 | part(12, 8, 12) | part(20, 1, 11) | part(21, 10, 1),
    }
}
