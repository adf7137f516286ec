//! Accesses by the stack pointer.
//!
//! An instruction with a check leaves the block before the check only by [`look_at`](Translator::look_at):
//! the interpreter finds no place for the instructions that follow.

use poorwill_isa::{Format, Instruction, Operation};

use super::code::Decoded;
use super::stacks::{Checked, STACK_POINTER};
use super::translate::Translator;
use super::writer::{A, B, C, STACK, offset};

/// Largest distance of accesses that one check covers.
const MOST_REACH: i32 = 1 << 10;

/// Bytes by which an instruction moves the stack pointer; `None` if it sets another one.
fn moves(instruction: &Instruction) -> Option<i32> {
    let has_target = !matches!(instruction.operation.format(), Format::S | Format::B);
    if !has_target || instruction.rd != STACK_POINTER {
        return Some(0);
    }
    let adds = instruction.operation == Operation::Addi && instruction.rs1 == STACK_POINTER;
    adds.then_some(instruction.immediate)
}

/// Offset from the stack pointer, and bytes, of an instruction's access.
fn access_by(instruction: &Instruction) -> Option<(i32, i32)> {
    let bytes = match instruction.operation {
        Operation::Fld | Operation::Fsd => 8,
        operation => operation.memory_access()?.bytes as i32,
    };
    (instruction.rs1 == STACK_POINTER).then_some((instruction.immediate, bytes))
}

impl Translator<'_, '_> {
    /// Finds an access by the stack pointer: returns a register and the offset from it. The stack is
    /// checked where no earlier check covers the access. `None`: the access is too far away.
    pub(super) fn in_stack(&mut self, immediate: i32, bytes: u64) -> Option<(u8, i32)> {
        let bytes = bytes as i32;
        let covers = |checked: &Checked| checked.has(checked.moved + immediate, bytes);
        if !self.stack.as_ref().is_some_and(covers) {
            let (low, high) = self.reach_of_stack(immediate, bytes);
            self.check_stack(low, high);
            self.stack = Some(Checked {
                moved: 0,
                low,
                high,
            });
        }
        let offset = self.stack?.moved + immediate;
        (-2048..2048).contains(&offset).then_some((STACK, offset))
    }

    /// The bytes around the stack pointer that the block accesses from here on.
    fn reach_of_stack(&self, immediate: i32, bytes: i32) -> (i32, i32) {
        let (mut low, mut high) = (immediate, immediate + bytes);
        let mut moved = 0;
        for Decoded { instruction, .. } in &self.code.instructions()[self.number..] {
            if let Some((offset, bytes)) = access_by(instruction) {
                let offset = moved + offset;
                let (new_low, new_high) = (low.min(offset), high.max(offset + bytes));
                if new_high - new_low > MOST_REACH || new_low < -MOST_REACH || new_high > MOST_REACH
                {
                    break;
                }
                (low, high) = (new_low, new_high);
            }
            let is_jump = instruction.operation == Operation::Jalr
                || instruction.operation.format() == Format::J;
            match moves(instruction) {
                Some(by) if !is_jump => moved += by,
                _ => break,
            }
        }
        (low, high)
    }

    /// Leaves the place of the stack pointer in [`STACK`]. Elsewhere than in the stack, the interpreter
    /// executes the instruction, and the block ends.
    fn check_stack(&mut self, low: i32, high: i32) {
        let writer = &mut *self.writer;
        writer.load_kept(C, offset::STACK_START);
        writer.register(Operation::Sub, C, STACK_POINTER, C);
        let mut first = C;
        if low != 0 {
            writer.immediate(Operation::Addi, A, C, low);
            first = A;
        }
        writer.load_kept(B, offset::STACK_BYTES);
        // A stack is larger than what a check covers.
        writer.immediate(Operation::Addi, B, B, low - high);
        let outside = writer.branch(Operation::Bltu, B, first);
        writer.load_kept(STACK, offset::STACK_PHYSICAL);
        writer.register(Operation::Add, STACK, STACK, C);
        self.look_at(outside);
    }

    /// Follows the stack pointer after an instruction.
    pub(super) fn follow_stack(&mut self, instruction: &Instruction) {
        if self.stack.is_none() {
            return;
        }
        self.stack = self.stack.and_then(|checked| {
            let moved = checked.moved + moves(instruction)?;
            (-MOST_REACH..=MOST_REACH)
                .contains(&moved)
                .then_some(Checked { moved, ..checked })
        });
    }
}
