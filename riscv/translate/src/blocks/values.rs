//! Values that registers have probably had at a place of a block. They guide guesses, and need not be
//! right.

use poorwill_isa::{Format, Instruction, Operation};

/// Values by register; `None`: unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values([Option<u64>; 32]);

impl Values {
    /// The values at the start of a block.
    pub(super) fn new(x: &[u64; 32]) -> Self {
        Values(x.map(Some))
    }

    pub(super) fn of(&self, register: u8) -> Option<u64> {
        self.0[usize::from(register)]
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
        self.0[usize::from(rd)] = match operation {
            Operation::Auipc => Some(pc.wrapping_add(immediate)),
            Operation::Lui => Some(immediate),
            Operation::Addi => self.of(rs1).map(|value| value.wrapping_add(immediate)),
            _ => None,
        };
    }
}
