//! Values that registers have probably had at a place of a block. They guide guesses, and need not be
//! right.

use poorwill_isa::{Format, Instruction, Operation};

/// Values by register, and the registers that have one, as bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    x: [u64; 32],
    known: u32,
}

impl Values {
    /// The values at the start of a block.
    pub(super) fn new(x: &[u64; 32]) -> Self {
        Values {
            x: *x,
            known: u32::MAX,
        }
    }

    pub(super) fn of(&self, register: u8) -> Option<u64> {
        (self.known >> register & 1 != 0).then(|| self.x[usize::from(register)])
    }

    /// Follows an instruction at an address.
    pub(super) fn follow(&mut self, pc: u64, instruction: &Instruction) {
        let Instruction {
            operation,
            rd,
            rs1,
            immediate,
            ..
        } = *instruction;
        if rd == 0 || matches!(operation.format(), Format::S | Format::B) {
            return;
        }
        let immediate = i64::from(immediate).cast_unsigned();
        let value = match operation {
            Operation::Auipc => Some(pc.wrapping_add(immediate)),
            Operation::Lui => Some(immediate),
            Operation::Addi => self.of(rs1).map(|value| value.wrapping_add(immediate)),
            _ => None,
        };
        self.known &= !(1 << rd);
        if let Some(value) = value {
            self.known |= 1 << rd;
            self.x[usize::from(rd)] = value;
        }
    }
}
