//! Loads and stores of integer registers (unprivileged specification: RV64I, C, Zcb).

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Bytes of the instruction itself.
    pub(super) length: usize,
    /// The register with the address.
    pub(super) base: u8,
    /// Offset that is added to the address.
    pub(super) offset: i64,
    /// Bytes of the access: 1, 2, 4 or 8.
    pub(super) bytes: u64,
    pub(super) operands: Operands,
}

/// The register that is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operands {
    Load { to: u8, signed: bool },
    Store { from: u8 },
}

impl Instruction {
    /// Returns whether these are the low bits of a 32-bit instruction. Longer instructions do not
    /// exist here.
    pub(super) fn is_long(low: u32) -> bool {
        low & 3 == 3
    }

    /// Decodes the instruction; `None` for all others than these loads and stores.
    pub(super) fn decode(bits: u32) -> Option<Self> {
        match bits & 3 {
            3 => long(bits),
            0 => short(bits),
            2 => short_by_stack_pointer(bits),
            _ => None,
        }
    }
}

/// Bits `from` to `to`, inclusive, of an instruction.
fn field(bits: u32, from: u32, to: u32) -> u32 {
    bits >> from & (u32::MAX >> (31 - (to - from)))
}

/// A register's number in five bits from `from` on.
fn register(bits: u32, from: u32) -> u8 {
    field(bits, from, from + 4) as u8
}

/// A register's number in three bits: x8 to x15.
fn short_register(bits: u32, from: u32) -> u8 {
    8 + field(bits, from, from + 2) as u8
}

/// RV64I: opcodes LOAD and STORE.
fn long(bits: u32) -> Option<Instruction> {
    const LOAD: u32 = 0x03;
    const STORE: u32 = 0x23;
    let width = field(bits, 12, 14);
    let signed_bits = bits.cast_signed();
    let (offset, operands) = match (field(bits, 0, 6), width) {
        (LOAD, 0..=6) => {
            let to = register(bits, 7);
            let signed = width < 4;
            (signed_bits >> 20, Operands::Load { to, signed })
        }
        (STORE, 0..=3) => {
            let low = field(bits, 7, 11).cast_signed();
            let from = register(bits, 20);
            (signed_bits >> 25 << 5 | low, Operands::Store { from })
        }
        _ => return None,
    };
    Some(Instruction {
        length: 4,
        base: register(bits, 15),
        offset: offset.into(),
        bytes: 1 << (width & 3),
        operands,
    })
}

fn compressed(base: u8, offset: u32, bytes: u64, operands: Operands) -> Option<Instruction> {
    Some(Instruction {
        length: 2,
        base,
        offset: offset.into(),
        bytes,
        operands,
    })
}

/// C, quadrant 0, and Zcb with its byte and half-word forms.
fn short(bits: u32) -> Option<Instruction> {
    let base = short_register(bits, 7);
    let number = short_register(bits, 2);
    let load = |signed| Operands::Load { to: number, signed };
    let store = Operands::Store { from: number };
    let high = field(bits, 10, 12) << 3;
    let word = high | field(bits, 6, 6) << 2 | field(bits, 5, 5) << 6;
    let double = high | field(bits, 5, 6) << 6;
    let byte = field(bits, 6, 6) | field(bits, 5, 5) << 1;
    let half = field(bits, 5, 5) << 1;
    match (field(bits, 13, 15), field(bits, 10, 12), field(bits, 6, 6)) {
        (0b010, ..) => compressed(base, word, 4, load(true)),
        (0b011, ..) => compressed(base, double, 8, load(true)),
        (0b110, ..) => compressed(base, word, 4, store),
        (0b111, ..) => compressed(base, double, 8, store),
        (0b100, 0b000, _) => compressed(base, byte, 1, load(false)),
        (0b100, 0b001, 0) => compressed(base, half, 2, load(false)),
        (0b100, 0b001, _) => compressed(base, half, 2, load(true)),
        (0b100, 0b010, _) => compressed(base, byte, 1, store),
        (0b100, 0b011, 0) => compressed(base, half, 2, store),
        _ => None,
    }
}

/// C, quadrant 2: relative to the stack pointer, x2.
fn short_by_stack_pointer(bits: u32) -> Option<Instruction> {
    const SP: u8 = 2;
    let to = register(bits, 7);
    let from = register(bits, 2);
    let load = Operands::Load { to, signed: true };
    let store = Operands::Store { from };
    let bit_5 = field(bits, 12, 12) << 5;
    match field(bits, 13, 15) {
        // Loads to x0 are reserved.
        0b010 | 0b011 if to == 0 => None,
        0b010 => {
            let offset = bit_5 | field(bits, 4, 6) << 2 | field(bits, 2, 3) << 6;
            compressed(SP, offset, 4, load)
        }
        0b011 => {
            let offset = bit_5 | field(bits, 5, 6) << 3 | field(bits, 2, 4) << 6;
            compressed(SP, offset, 8, load)
        }
        0b110 => {
            let offset = field(bits, 9, 12) << 2 | field(bits, 7, 8) << 6;
            compressed(SP, offset, 4, store)
        }
        0b111 => {
            let offset = field(bits, 10, 12) << 3 | field(bits, 7, 9) << 6;
            compressed(SP, offset, 8, store)
        }
        _ => None,
    }
}
