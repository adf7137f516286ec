use crate::compressed::expand;
use crate::form::Format;
use crate::forms::{COUNT, FORMS, OPCODES, Operation};

/// Index of the first form of each opcode (bits 6 to 2), and the number of all forms.
const FIRST: [u8; 33] = {
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
            true => long(bits, 4),
            false => long(expand(bits as u16)?, 2),
        }
    }
}

fn long(bits: u32, length: u8) -> Option<Instruction> {
    let opcode = (bits >> 2 & 31) as usize;
    let forms = usize::from(FIRST[opcode])..usize::from(FIRST[opcode + 1]);
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
