//! Values that registers have probably had at a place of a block. They guide guesses, and need not be
//! right.

use arrayvec::ArrayVec;
use poorwill_isa::{Format, Instruction, Operation};

/// Values that a block sets and that are known, at most.
const MOST_OTHERS: usize = 16;

/// Values by register.
#[derive(Debug)]
pub(super) struct Values<'a> {
    /// The registers at the start of the block.
    start: &'a [u64; 32],
    /// Registers that still have that value, and registers with another known one, as bits.
    same: u32,
    known: u32,
    /// Those other ones, by register. The last one of a register counts.
    others: ArrayVec<(u8, u64), MOST_OTHERS>,
}

impl<'a> Values<'a> {
    /// The values at the start of a block.
    pub(super) fn new(start: &'a [u64; 32]) -> Self {
        Values {
            start,
            same: u32::MAX,
            known: 0,
            others: ArrayVec::new(),
        }
    }

    pub(super) fn of(&self, register: u8) -> Option<u64> {
        let number = usize::from(register);
        if self.same >> register & 1 != 0 {
            return Some(self.start[number]);
        }
        if self.known >> register & 1 == 0 {
            return None;
        }
        let last = self.others.iter().rfind(|other| other.0 == register)?;
        Some(last.1)
    }

    /// Follows an instruction at an address.
    pub(super) fn follow(&mut self, pc: u64, instruction: &Instruction) {
        let Instruction {
            operation,
            rd,
            rs1,
            rs2,
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
            // A copy.
            Operation::Add if rs1 == 0 => self.of(rs2),
            Operation::Addi => self.of(rs1).map(|value| value.wrapping_add(immediate)),
            _ => None,
        };
        self.same &= !(1 << rd);
        self.known &= !(1 << rd);
        if let Some(value) = value
            && self.others.try_push((rd, value)).is_ok()
        {
            self.known |= 1 << rd;
        }
    }
}
