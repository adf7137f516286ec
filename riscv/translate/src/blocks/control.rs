//! Jumps, branches, and CSRs.

use poorwill_isa::{Instruction, Operation};

use super::code::Decoded;
use super::region::{JUMP_SETS, Place};
use super::translate::{Flow, Translator};
use super::writer::{A, B, BREAK, C, ENVIRONMENT, is_constant, is_kept, offset, target};
use crate::csr::number;

/// Shifts that leave the bits of an even address that select a set of the table of jumps, at the
/// set's place.
const JUMP_LEFT: i32 = 63 - JUMP_SETS.ilog2() as i32;
const JUMP_RIGHT: i32 = JUMP_LEFT - 4;

/// Offsets of the entries of a set.
const ENTRIES: [i32; 2] = [offset::REGION, offset::REGION + 16];

/// `sstatus.SIE`
const SIE: i32 = 2;

impl Translator<'_, '_> {
    /// The address after an instruction.
    fn after(&self, instruction: &Instruction) -> u64 {
        let address = self.code.address(self.at);
        address.wrapping_add(instruction.length.into())
    }

    /// Puts a constant into a register of the OS. It may be written in two steps, so that the
    /// instruction must not read the register.
    fn set(&mut self, register: u8, value: u64) -> bool {
        let is_set = register == 0 || self.writer.constant(target(register), value);
        if is_set {
            self.writer.commit(register);
        }
        is_set
    }

    pub(super) fn auipc(&mut self, instruction: &Instruction) -> Flow {
        let value = (self.code.address(self.at)).wrapping_add_signed(instruction.immediate.into());
        let next = self.code.instructions().get(self.number + 1);
        if let Some(Decoded {
            instruction: jump, ..
        }) = next
            && jump.operation == Operation::Jalr
            && jump.rs1 == instruction.rd
            && instruction.rd != 0
        {
            return self.far_jump(instruction.rd, value, jump);
        }
        match self.set(instruction.rd, value) {
            true => Flow::Next,
            false => Flow::Interpret,
        }
    }

    /// `auipc` and `jalr` as one instruction.
    fn far_jump(&mut self, base: u8, value: u64, jump: &Instruction) -> Flow {
        let end = self.at + 2 + usize::from(jump.length / 2);
        let link = self.code.address(end);
        let to = value.wrapping_add_signed(jump.immediate.into()) & !1;
        let Ok(distance) = i32::try_from(to.wrapping_sub(self.code.pc).cast_signed()) else {
            return Flow::Interpret;
        };
        if !is_constant(value) || !is_constant(link) {
            return Flow::Interpret;
        }
        if jump.rd != base {
            self.set(base, value);
        }
        self.set(jump.rd, link);
        self.leave(distance);
        // It counts as two.
        self.count();
        Flow::End(end)
    }

    pub(super) fn jal(&mut self, instruction: &Instruction) -> Flow {
        if !self.set(instruction.rd, self.after(instruction)) {
            return Flow::Interpret;
        }
        let distance = self.distance(self.at).wrapping_add(instruction.immediate);
        self.leave(distance);
        Flow::End(self.at + usize::from(instruction.length / 2))
    }

    pub(super) fn jalr(&mut self, instruction: &Instruction) -> Flow {
        let Instruction {
            rd, rs1, immediate, ..
        } = *instruction;
        let link = self.after(instruction);
        if rd != 0 && !is_constant(link) {
            return Flow::Interpret;
        }
        let mut register = self.writer.source(rs1, B);
        if rd != 0 || immediate != 0 {
            self.writer
                .immediate(Operation::Addi, B, register, immediate);
            register = B;
        }
        // In one step, if the old value may be needed again.
        if rd == rs1 && !is_kept(rd) {
            self.writer.constant(A, link);
            self.writer.copy(rd, A);
        } else {
            self.set(rd, link);
        }
        if rd != 0 {
            // The instruction has taken effect, but for the jump.
            self.writer.mark(Place::JUMPS, 0);
        }
        self.jump(register);
        Flow::End(self.at + usize::from(instruction.length / 2))
    }

    /// Jumps to the translation of the address in a register.
    fn jump(&mut self, register: u8) {
        let writer = &mut *self.writer;
        writer.immediate(Operation::Slli, A, register, JUMP_LEFT);
        writer.immediate(Operation::Srli, A, A, JUMP_RIGHT);
        writer.register(Operation::Add, A, A, ENVIRONMENT);
        let other = self.try_jump(register, ENTRIES[0]);
        self.jump_at(other, register);
    }

    /// Jumps if an entry of the set at the address in [`A`] is that of a register's address. Returns the
    /// branch elsewhere.
    fn try_jump(&mut self, register: u8, entry: i32) -> usize {
        let writer = &mut *self.writer;
        writer.immediate(Operation::Ld, C, A, entry);
        let other = writer.branch(Operation::Bne, C, register);
        writer.immediate(Operation::Ld, C, A, entry + 8);
        writer.immediate(Operation::Jalr, 0, C, 0);
        other
    }

    /// As [`jump`](Self::jump), where the first entry of the set is another one's.
    pub(super) fn jump_by_second(&mut self, register: u8) {
        let miss = self.try_jump(register, ENTRIES[1]);
        self.writer.land(miss);
        if register != B {
            self.writer.copy(B, register);
        }
        self.writer.mark(Place::JUMPS, 0);
        self.writer.put(BREAK);
    }

    pub(super) fn branch(&mut self, instruction: &Instruction) -> Flow {
        let first = self.writer.source(instruction.rs1, A);
        let second = self.writer.source(instruction.rs2, B);
        let branch = self.writer.branch(instruction.operation, first, second);
        match self.distance(self.at).wrapping_add(instruction.immediate) {
            // A loop. Also a dropped block is left there.
            0 if !self.options.is_checked() => self.writer.branch_back(branch, 0),
            distance => self.leave_at(branch, distance),
        }
        Flow::Branch
    }

    /// Reads of `sstatus` and `time`, and changes of SIE. The interpreter executes the others.
    pub(super) fn csr(&mut self, instruction: &Instruction) -> Flow {
        let Instruction {
            operation,
            rd,
            rs1,
            immediate,
            ..
        } = *instruction;
        let only_reads = matches!(
            operation,
            Operation::Csrrs | Operation::Csrrc | Operation::Csrrsi | Operation::Csrrci
        ) && rs1 == 0;
        match immediate.cast_unsigned() {
            // The time is another one each time.
            number::TIME if only_reads && !self.options.is_checked() => self.read_time(rd),
            number::SSTATUS if only_reads => {
                self.writer.load_kept(target(rd), offset::SSTATUS);
                self.writer.commit(rd);
                Flow::Next
            }
            number::SSTATUS => self.change_status(instruction),
            _ => Flow::Interpret,
        }
    }

    fn read_time(&mut self, rd: u8) -> Flow {
        self.writer.load_kept(A, offset::MTIME);
        self.writer.immediate(Operation::Ld, target(rd), A, 0);
        self.writer.commit(rd);
        Flow::Next
    }

    fn change_status(&mut self, instruction: &Instruction) -> Flow {
        let Instruction {
            operation, rd, rs1, ..
        } = *instruction;
        let (sets, by_register) = match operation {
            Operation::Csrrs => (true, true),
            Operation::Csrrc => (false, true),
            Operation::Csrrsi => (true, false),
            Operation::Csrrci => (false, false),
            _ => return Flow::Interpret,
        };
        if by_register && rd == rs1 || !by_register && i32::from(rs1) != SIE {
            return Flow::Interpret;
        }
        if by_register {
            let bits = self.writer.source(rs1, A);
            self.writer.immediate(Operation::Andi, B, bits, !SIE);
            let others = self.writer.branch(Operation::Bne, B, 0);
            self.interpret_at(others);
            match sets {
                true => self.writer.copy(B, bits),
                false => self.writer.immediate(Operation::Xori, B, bits, -1),
            }
        }
        let writer = &mut *self.writer;
        writer.load_kept(A, offset::SSTATUS);
        match (sets, by_register) {
            (true, true) => writer.register(Operation::Or, B, B, A),
            (false, true) => writer.register(Operation::And, B, B, A),
            (true, false) => writer.immediate(Operation::Ori, B, A, SIE),
            (false, false) => writer.immediate(Operation::Andi, B, A, !SIE),
        }
        if rd != 0 && !is_kept(rd) {
            writer.copy(rd, A);
        }
        writer.commit(rd);
        writer.keep(B, offset::SSTATUS);
        if sets {
            self.look(instruction.length);
        }
        Flow::Next
    }

    /// An interrupt that has waited for SIE comes before the next instruction.
    fn look(&mut self, length: u8) {
        self.mark_next(length);
        self.writer.load_kept(A, offset::ATTENTION);
        let waits = self.writer.branch(Operation::Bne, A, 0);
        // The next instruction may check the stack, which an interpreted one does not do.
        self.look_at(waits);
    }
}
