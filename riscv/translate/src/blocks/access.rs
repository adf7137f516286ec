//! Accesses to memory: by the distance of a window, by the stack's place, or through a table of
//! translations, which machine mode fills.

use poorwill_hart::emulation::status;
use poorwill_isa::{Direction, Instruction, MemoryAccess, Operation, encode};

use super::region::SLOTS;
use super::sites::{Site, WINDOWS};
use super::stacks::STACK_POINTER;
use super::translate::{Flow, Translator, with_register};
use super::windows::Select;
use super::writer::{A, B, BREAK, C, D, DISTANCE, ENVIRONMENT, is_kept, offset, target};

/// log2 of the bytes of a table's entry.
const SLOT_SHIFT: i32 = 4;
const PAGE_SHIFT: i32 = 12;
/// Shifts that leave the bits of an address that select an entry.
const SLOT_LEFT: i32 = 64 - PAGE_SHIFT - SLOTS.ilog2() as i32;
const SLOT_RIGHT: i32 = SLOT_LEFT + PAGE_SHIFT;

/// `sstatus.FS`, for `lui`.
const FS: i32 = status::FS as i32;

/// The lowest bit of a reservation's address tells of 8 bytes.
pub(super) const OF_EIGHT: i32 = 1;

impl Translator<'_, '_> {
    /// Leaves a physical address in [`C`], and returns the offset of an access from it. An address
    /// outside its window faults there.
    fn locate(&mut self, base: u8, immediate: i32, bytes: u64, table: u64) -> i32 {
        match self.site(base) {
            Site::Window(number) => {
                let writer = &mut *self.writer;
                let distance = if number == 0 { DISTANCE } else { C };
                if number != 0 {
                    writer.load_kept(C, offset::DISTANCE);
                }
                let base = writer.source(base, A);
                writer.register(Operation::Add, C, base, distance);
                if self.windows.is_guarded(number) {
                    self.guard();
                }
                immediate
            }
            Site::Both => {
                self.select(base);
                immediate
            }
            Site::Stack | Site::Table => {
                self.look_up(base, immediate, bytes, table);
                0
            }
        }
    }

    /// Leaves a physical address in [`C`], by the window that a bit of the address tells.
    fn select(&mut self, base: u8) {
        let Some(Select { bit, .. }) = self.windows.select else {
            return self.writer.put(BREAK);
        };
        let writer = &mut *self.writer;
        let base = writer.source(base, A);
        // The bit becomes the offset of a double word.
        writer.immediate(Operation::Srli, B, base, bit.cast_signed() - 3);
        writer.immediate(Operation::Andi, B, B, 1 << 3);
        writer.register(Operation::Add, B, B, ENVIRONMENT);
        writer.immediate(Operation::Ld, C, B, offset::SELECTED);
        writer.register(Operation::Add, C, C, base);
        if (0..WINDOWS).any(|number| self.windows.is_guarded(number)) {
            self.guard();
        }
    }

    /// Lets the interpreter execute an instruction whose address in [`C`] is near MTIME.
    fn guard(&mut self) {
        let bit = self.tables.guard.map_or(63, u32::cast_signed);
        self.writer.immediate(Operation::Srli, B, C, bit);
        let miss = self.writer.branch(Operation::Beq, B, 0);
        self.interpret_at(miss);
    }

    /// Leaves the physical address of an access in [`C`]. Where the table lacks the page, or the
    /// access crosses a page, the interpreter executes the instruction.
    fn look_up(&mut self, base: u8, immediate: i32, bytes: u64, table: u64) {
        let writer = &mut *self.writer;
        let mut address = writer.source(base, A);
        if immediate != 0 {
            writer.immediate(Operation::Addi, A, address, immediate);
            address = A;
        }
        // The page of the last byte: it must be that of the first.
        let mut last = address;
        if bytes > 1 {
            writer.immediate(Operation::Addi, B, address, bytes as i32 - 1);
            last = B;
        }
        writer.immediate(Operation::Srli, B, last, PAGE_SHIFT);
        writer.immediate(Operation::Slli, C, address, SLOT_LEFT);
        writer.immediate(Operation::Srli, C, C, SLOT_RIGHT);
        writer.immediate(Operation::Slli, C, C, SLOT_SHIFT);
        let low = writer.near(D, table);
        writer.register(Operation::Add, C, C, D);
        writer.immediate(Operation::Ld, D, C, low);
        let miss = writer.branch(Operation::Bne, D, B);
        writer.immediate(Operation::Ld, C, C, low + 8);
        writer.register(Operation::Add, C, C, address);
        self.interpret_at(miss);
    }

    /// `fld` and `fsd`, while the floating-point registers are on and dirty.
    pub(super) fn float(&mut self, instruction: &Instruction) -> Flow {
        let Instruction {
            operation,
            rd,
            rs1,
            rs2,
            immediate,
            ..
        } = *instruction;
        let writer = &mut *self.writer;
        writer.load_kept(A, offset::SSTATUS);
        writer.put(encode::u(Operation::Lui.encoding(), B.into(), FS));
        writer.register(Operation::And, A, A, B);
        let off = writer.branch(Operation::Bne, A, B);
        // A check of the stack may follow.
        self.look_at(off);
        let is_load = operation == Operation::Fld;
        let table = if is_load {
            self.tables.loads
        } else {
            self.tables.stores
        };
        let (base, at) = self.find(rs1, immediate, 8, table);
        let writer = &mut *self.writer;
        if is_load {
            writer.immediate(Operation::Ld, A, base, at);
            writer.keep(A, offset::of_float(rd));
        } else {
            writer.load_kept(A, offset::of_float(rs2));
            writer.store(Operation::Sd, base, A, at);
        }
        Flow::Next
    }

    /// As [`locate`](Self::locate), also by the stack. Returns the register of the address, and the
    /// offset from it.
    fn find(&mut self, base: u8, immediate: i32, bytes: u64, table: u64) -> (u8, i32) {
        let by_stack = match self.site(base) {
            Site::Stack => self.in_stack(immediate, bytes),
            _ => None,
        };
        by_stack.unwrap_or_else(|| (C, self.locate(base, immediate, bytes, table)))
    }

    /// How the current instruction finds its memory.
    fn site(&self, base: u8) -> Site {
        if self.options.tables_only {
            return Site::Table;
        }
        let pc = self.code.address(self.at);
        let guess = || match self.values.of(base) {
            Some(value) if base != STACK_POINTER => self.windows.of(value, self.tables.reach),
            _ => self.windows.guess(base),
        };
        let site = self.index.notes.noted(pc).unwrap_or_else(guess);
        match self.windows.usable(site) {
            // The note of another instruction.
            Site::Stack if base != STACK_POINTER => Site::Table,
            site => site,
        }
    }

    pub(super) fn access(&mut self, instruction: &Instruction, access: MemoryAccess) -> Flow {
        let Instruction {
            operation,
            rd,
            rs1,
            rs2,
            immediate,
            ..
        } = *instruction;
        let table = match access.direction {
            Direction::Load { .. } => self.tables.loads,
            Direction::Store => self.tables.stores,
        };
        let (base, at) = self.find(rs1, immediate, access.bytes, table);
        let writer = &mut *self.writer;
        match access.direction {
            Direction::Load { .. } => {
                writer.immediate(operation, target(rd), base, at);
                writer.commit(rd);
            }
            Direction::Store => {
                let value = writer.source(rs2, B);
                writer.store(operation, base, value, at);
            }
        }
        Flow::Next
    }

    /// Lets the interpreter execute an instruction whose address in [`C`] is not aligned.
    fn check_alignment(&mut self, bytes: u64) {
        self.writer
            .immediate(Operation::Andi, B, C, bytes as i32 - 1);
        let miss = self.writer.branch(Operation::Bne, B, 0);
        self.interpret_at(miss);
    }

    /// An operation on memory. It takes effect at once, so its result needs a register of the core.
    pub(super) fn amo(&mut self, instruction: &Instruction, bits: u32) -> Flow {
        if is_kept(instruction.rd) {
            return Flow::Interpret;
        }
        let bytes = bytes_of(bits);
        self.locate(instruction.rs1, 0, bytes, self.tables.stores);
        let value = self.writer.source(instruction.rs2, B);
        let word = with_register(with_register(bits, 15, C), 20, value);
        self.writer.put(word);
        Flow::Next
    }

    /// The harts of an OS run on one core, so that a reservation is a note of the loaded value.
    pub(super) fn load_reserved(&mut self, instruction: &Instruction, bits: u32) -> Flow {
        let bytes = bytes_of(bits);
        let load = plain_load(bytes);
        self.locate(instruction.rs1, 0, bytes, self.tables.loads);
        self.check_alignment(bytes);
        let rd = instruction.rd;
        self.order(bits);
        let writer = &mut *self.writer;
        writer.immediate(load, A, C, 0);
        if bytes == 8 {
            writer.immediate(Operation::Addi, C, C, OF_EIGHT);
        }
        writer.keep(C, offset::RESERVED);
        writer.keep(A, offset::RESERVED_VALUE);
        self.order(bits);
        if !is_kept(rd) {
            self.writer.copy(rd, A);
        }
        self.writer.commit(rd);
        Flow::Next
    }

    /// The result comes before the store, which is the last word: after an interrupt between them the
    /// instruction fails, as its reservation is gone, and stores nothing.
    pub(super) fn store_conditional(&mut self, instruction: &Instruction, bits: u32) -> Flow {
        let Instruction { rd, rs1, rs2, .. } = *instruction;
        if rd != 0 && rs1 == rd {
            return Flow::Interpret;
        }
        let bytes = bytes_of(bits);
        self.locate(rs1, 0, bytes, self.tables.stores);
        self.check_alignment(bytes);
        let writer = &mut *self.writer;
        writer.load_kept(A, offset::RESERVED);
        let of_eight = if bytes == 8 { OF_EIGHT } else { 0 };
        writer.immediate(Operation::Addi, B, C, of_eight);
        let other = writer.branch(Operation::Bne, A, B);
        writer.immediate(plain_load(bytes), A, C, 0);
        writer.load_kept(B, offset::RESERVED_VALUE);
        let changed = writer.branch(Operation::Bne, A, B);
        let mut value = writer.source(rs2, B);
        if rd != 0 && value == rd {
            writer.copy(B, rd);
            value = B;
        }
        writer.keep(0, offset::RESERVED);
        match rd {
            0 => {}
            _ if is_kept(rd) => writer.keep(0, offset::of(rd)),
            _ => writer.copy(rd, 0),
        }
        self.order(bits);
        self.writer.store(plain_store(bytes), C, value, 0);
        self.interpret_at(other);
        self.interpret_at(changed);
        Flow::Next
    }

    /// A fence in place of `aq` and `rl`.
    fn order(&mut self, bits: u32) {
        const ORDERED: u32 = 3 << 25;
        const FENCE_RW_RW: u32 = 0x33 << 20;
        if bits & ORDERED != 0 {
            self.writer.put(Operation::Fence.encoding() | FENCE_RW_RW);
        }
    }

    /// `cbo.zero`, of 64 bytes. Zeros may be stored again after an interrupt.
    pub(super) fn zero_block(&mut self, instruction: &Instruction) -> Flow {
        let Some(bytes) = self.options.zero_bytes else {
            return Flow::Interpret;
        };
        self.locate(instruction.rs1, 0, 1, self.tables.stores);
        self.writer
            .immediate(Operation::Andi, C, C, -(bytes as i32));
        for offset in (0..bytes as i32).step_by(8) {
            self.writer.store(Operation::Sd, C, 0, offset);
        }
        Flow::Next
    }
}

/// Bytes of an atomic operation.
fn bytes_of(bits: u32) -> u64 {
    1 << (bits >> 12 & 7)
}

fn plain_load(bytes: u64) -> Operation {
    if bytes == 8 {
        Operation::Ld
    } else {
        Operation::Lw
    }
}

fn plain_store(bytes: u64) -> Operation {
    if bytes == 8 {
        Operation::Sd
    } else {
        Operation::Sw
    }
}
