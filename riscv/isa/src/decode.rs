use crate::compressed::expand;
use crate::form::Format;
use crate::forms::{COUNT, FORMS, Form, Operation};

/// Number of values of the opcode (bits 6 to 2) with `funct3`.
const KEYS: usize = 32 << 3;

/// The fixed bits of a form's key, and their values.
const fn key_of(form: &Form) -> (usize, usize) {
    (key(form.mask), key(form.value))
}

const fn key(bits: u32) -> usize {
    (bits >> 2 & 31 | (bits >> 12 & 7) << 5) as usize
}

/// Number of the forms that each key may have, added up.
const CANDIDATES: usize = {
    let mut count = 0;
    let mut form = 0;
    while form < COUNT {
        let (mask, _) = key_of(&FORMS[form]);
        count += KEYS >> mask.count_ones();
        form += 1;
    }
    count
};

/// The forms that each key may have, by their numbers; for each key the index of its first one.
static BY_KEY: ([u16; KEYS + 1], [u8; CANDIDATES]) = {
    let mut first = [0; KEYS + 1];
    let mut candidates = [0; CANDIDATES];
    let mut count = 0;
    let mut key = 0;
    while key < KEYS {
        first[key] = count as u16;
        let mut form = 0;
        while form < COUNT {
            let (mask, value) = key_of(&FORMS[form]);
            if key & mask == value {
                candidates[count] = form as u8;
                count += 1;
            }
            form += 1;
        }
        key += 1;
    }
    first[KEYS] = count as u16;
    (first, candidates)
};

/// A decoded instruction. Registers that its operation lacks have any number, but `rs2` is x0 where the
/// format has an immediate in its place. An immediate that the operation lacks is zero.
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
        let key = key(bits);
        let (first, candidates) = &BY_KEY;
        let numbers = usize::from(first[key])..usize::from(first[key + 1]);
        let mut forms = candidates[numbers]
            .iter()
            .map(|number| &FORMS[usize::from(*number)]);
        let form = forms.find(|form| bits & form.mask == form.value)?;
        let register = |from: u32| (bits >> from & 31) as u8;
        let has_second = matches!(form.format, Format::R | Format::S | Format::B);
        Some(Instruction {
            operation: form.operation,
            length,
            rd: register(7),
            rs1: register(15),
            rs2: if has_second { register(20) } else { 0 },
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
