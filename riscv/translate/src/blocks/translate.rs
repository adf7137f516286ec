//! Translates the instructions of a block.

use arrayvec::ArrayVec;
use poorwill_isa::{FORMS, Format, Instruction, Operation};
use poorwill_memory::PhysRange;

use super::code::{Code, Decoded, MOST_HALVES};
use super::region::Index;
use super::stacks::Checked;
use super::values::Values;
use super::windows::Windows;
use super::writer::{A, B, BREAK, COUNTER, Full, LEAVE, Writer, is_kept, target};
use crate::interpreter::integer;

/// Words from which on a block takes no further instruction: branches reach 4 KiB, and the places
/// at the end need room.
const MOST_WORDS: usize = 560;

/// The words that count instructions come before the first of these.
pub(super) const COUNT_WORDS: u64 = 1;

/// Addresses of the tables that translated code reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    /// What translated code reaches: memory, and MTIME's page.
    pub(super) reach: [PhysRange; 2],
    /// A bit of physical addresses that [`guard`](super::windows::guard) names.
    pub(super) guard: Option<u32>,
    pub(super) loads: u64,
    pub(super) stores: u64,
}

/// How a block goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// With the next instruction.
    Next,
    /// With the next instruction, which not all executions reach.
    Branch,
    /// The block has ended, with an instruction that ends at this half-word.
    End(usize),
    /// The interpreter executes this instruction.
    Interpret,
}

/// Words at the end of a block, to which a branch goes.
#[derive(Clone, Copy, Debug)]
struct Exit {
    /// The word with the branch.
    branch: u16,
    /// The place with the branch's instruction.
    place: u16,
    kind: ExitKind,
}

/// What such words do.
#[derive(Clone, Copy, Debug)]
enum ExitKind {
    /// The interpreter executes the instruction.
    Interpret,
    /// As [`Interpret`](ExitKind::Interpret); the block does not go on afterwards.
    Look,
    /// The block is left for the address at a distance.
    Leave(i32),
    /// The block is left for the address in a register, as the instruction does.
    Jump(u8),
}

/// A translation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Translated {
    /// Half-words of the OS's instructions.
    pub(super) halves: usize,
    /// Number of the places before the exits.
    pub(super) inline: usize,
}

/// What blocks do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// They count the OS's instructions.
    pub counts: bool,
    /// Accesses take the tables of pages alone, not windows and stacks.
    pub tables_only: bool,
    /// Bytes that `cbo.zero` clears, at most 64; `None`: the interpreter executes it.
    pub zero_bytes: Option<u64>,
    /// Executions of an address before it is translated.
    pub executions: u8,
    /// The results of blocks are compared with the interpreter's, with the feature `check`. Blocks must
    /// count, and are not linked.
    pub checks: bool,
}

impl Options {
    /// Returns whether blocks are compared.
    pub(super) fn is_checked(&self) -> bool {
        self.checks && cfg!(feature = "check")
    }
}

/// Translates a block. `None`: the interpreter executes its first instruction.
///
/// # Errors
///
/// [`Full`].
pub(super) fn translate(
    writer: &mut Writer<'_>,
    code: &Code,
    (tables, index, windows): (Tables, &Index, &Windows),
    x: &[u64; 32],
    options: Options,
) -> Result<Option<Translated>, Full> {
    let mut translator = Translator {
        writer,
        code,
        tables,
        index,
        windows,
        values: Values::new(x),
        number: 0,
        at: 0,
        exits: ArrayVec::new(),
        counter: None,
        count: 0,
        first: 0,
        options,
        stack: None,
    };
    let Some(halves) = translator.run() else {
        return Ok(None);
    };
    let inline = translator.writer.place;
    translator.put_exits();
    writer.check()?;
    Ok(Some(Translated { halves, inline }))
}

pub(super) struct Translator<'a, 'w> {
    pub(super) writer: &'a mut Writer<'w>,
    pub(super) code: &'a Code,
    pub(super) tables: Tables,
    pub(super) index: &'a Index,
    pub(super) windows: &'a Windows,
    pub(super) values: Values<'a>,
    /// Number of the current instruction in the block.
    pub(super) number: usize,
    /// Its half-word.
    pub(super) at: usize,
    exits: ArrayVec<Exit, MOST_HALVES>,
    /// The word that adds to the counter.
    counter: Option<usize>,
    /// Instructions that it counts so far, and the place where that begins.
    count: u8,
    first: usize,
    pub(super) options: Options,
    /// The stack, where a check has found it.
    pub(super) stack: Option<Checked>,
}

impl Translator<'_, '_> {
    /// Translates all instructions; returns the number of their half-words.
    fn run(&mut self) -> Option<usize> {
        let code = self.code;
        let first = code.instructions().first();
        if !first.is_some_and(|first| is_translated(&first.instruction)) {
            return None;
        }
        let mut flow = Flow::Branch;
        loop {
            let is_long = self.writer.word >= MOST_WORDS || self.exits.remaining_capacity() < 8;
            let found = code.instructions().get(self.number);
            let Some(Decoded { instruction, bits }) = found.filter(|_| !is_long) else {
                self.end_count();
                self.leave(self.distance(self.at));
                return Some(self.at);
            };
            if flow == Flow::Branch {
                self.end_count();
                self.first = self.writer.place;
            }
            self.mark(self.at as u8, self.count);
            if flow == Flow::Branch {
                self.begin_count();
            }
            flow = self.instruction(instruction, *bits);
            self.follow_stack(instruction);
            self.values.follow(self.code.address(self.at), instruction);
            match flow {
                Flow::Next | Flow::Branch => {
                    self.count();
                    self.number += 1;
                    self.at += usize::from(instruction.length / 2);
                }
                Flow::End(end) => {
                    self.count();
                    self.end_count();
                    return Some(end);
                }
                Flow::Interpret => {
                    self.end_count();
                    self.writer.put(BREAK);
                    return (self.at > 0).then_some(self.at);
                }
            }
        }
    }

    /// Distance of a half-word from the first one, in bytes.
    pub(super) fn distance(&self, at: usize) -> i32 {
        2 * at as i32
    }

    /// Lets the interpreter execute the instruction of the last place, where a branch goes.
    pub(super) fn interpret_at(&mut self, branch: usize) {
        self.exit_at(branch, ExitKind::Interpret);
    }

    /// As [`interpret_at`](Self::interpret_at), but the block does not go on afterwards.
    pub(super) fn look_at(&mut self, branch: usize) {
        self.exit_at(branch, ExitKind::Look);
    }

    /// Leaves the block where a branch goes, for the address in a register.
    pub(super) fn jump_at(&mut self, branch: usize, register: u8) {
        self.exit_at(branch, ExitKind::Jump(register));
    }

    /// Leaves the block where a branch goes.
    pub(super) fn leave_at(&mut self, branch: usize, distance: i32) {
        self.exit_at(branch, ExitKind::Leave(distance));
    }

    fn exit_at(&mut self, branch: usize, kind: ExitKind) {
        self.exits.push(Exit {
            branch: branch as u16,
            place: (self.writer.place - 1) as u16,
            kind,
        });
    }

    /// Leaves the block for an address at this distance from its first instruction: goes to the block
    /// there, if it is made.
    pub(super) fn leave(&mut self, distance: i32) {
        self.leave_for(distance, self.made(distance));
    }

    /// Leaves the block for an address at this distance, where a block may begin with a word.
    fn leave_for(&mut self, distance: i32, made: Option<u32>) {
        let at = self.writer.leave(distance);
        if let Some(to) = made {
            self.writer.jump(at, to);
        }
    }

    /// The first word of the block at this distance, if it is made.
    fn made(&self, distance: i32) -> Option<u32> {
        if self.options.is_checked() {
            return None;
        }
        let to = self.code.pc.wrapping_add_signed(distance.into());
        let number = self.index.find(to)?;
        Some(self.index.blocks[number].word)
    }

    /// The next words belong to the instruction after the current one.
    pub(super) fn mark_next(&mut self, length: u8) {
        let next = self.at as u8 + length / 2;
        self.mark(next, self.count + 1);
    }

    /// The next words belong to an instruction. `before`: instructions that are counted before it.
    fn mark(&mut self, at: u8, before: u8) {
        let before = if self.options.counts { before } else { 0 };
        self.writer.mark(at, before);
    }

    fn put_exits(&mut self) {
        for number in 0..self.exits.len() {
            let Exit {
                branch,
                place,
                kind,
            } = self.exits[number];
            let (branch, place) = (branch.into(), place.into());
            match kind {
                ExitKind::Interpret => {
                    self.land_at(branch, place);
                    self.writer.put(BREAK);
                }
                ExitKind::Look => {
                    self.land_at(branch, place);
                    self.writer.put(LEAVE);
                }
                ExitKind::Jump(register) => {
                    self.land_at(branch, place);
                    self.jump_by_second(register);
                }
                ExitKind::Leave(distance) => {
                    let made = self.made(distance);
                    if !made.is_some_and(|to| self.writer.branch_to(branch, to)) {
                        self.writer.land(branch);
                        self.leave_for(distance, made);
                    }
                }
            }
        }
    }

    /// The next words, to which a branch goes, belong to an earlier place.
    fn land_at(&mut self, branch: usize, place: usize) {
        let (at, rest) = self.writer.place_at(place);
        self.writer.land(branch);
        self.writer.mark(at, rest);
    }

    fn begin_count(&mut self) {
        if self.options.counts {
            self.counter = Some(self.writer.word);
            self.writer.immediate(Operation::Addi, COUNTER, COUNTER, 0);
        }
    }

    pub(super) fn count(&mut self) {
        self.count += 1;
    }

    fn end_count(&mut self) {
        let count = core::mem::take(&mut self.count);
        if let Some(word) = self.counter.take() {
            self.writer.set_immediate(word, count.into());
            self.writer.set_rests(self.first, count);
        }
    }

    /// Translates an instruction.
    fn instruction(&mut self, instruction: &Instruction, bits: u32) -> Flow {
        let operation = instruction.operation;
        if integer::is_of_calculation(bits) {
            return self.calculation(instruction, bits);
        }
        if let Some(access) = operation.memory_access() {
            return self.access(instruction, access);
        }
        match operation {
            Operation::Fld | Operation::Fsd => self.float(instruction),
            Operation::Auipc => self.auipc(instruction),
            Operation::Jal => self.jal(instruction),
            Operation::Jalr => self.jalr(instruction),
            Operation::Beq
            | Operation::Bne
            | Operation::Blt
            | Operation::Bge
            | Operation::Bltu
            | Operation::Bgeu => self.branch(instruction),
            Operation::Fence => {
                self.writer.put(bits);
                Flow::Next
            }
            Operation::LrW | Operation::LrD => self.load_reserved(instruction, bits),
            Operation::ScW | Operation::ScD => self.store_conditional(instruction, bits),
            Operation::CboZero => self.zero_block(instruction),
            _ if is_amo(operation) => self.amo(instruction, bits),
            _ if is_csr(operation) => self.csr(instruction),
            _ => Flow::Interpret,
        }
    }

    /// An instruction on registers alone: the same, with registers of the core.
    fn calculation(&mut self, instruction: &Instruction, bits: u32) -> Flow {
        if instruction.rd == 0 {
            return Flow::Next;
        }
        let has = |from: u32| FORMS[instruction.operation as usize].mask >> from & 31 == 0;
        let format = instruction.operation.format();
        let has_first = format != Format::U;
        let has_second = format == Format::R && has(20);
        let first = has_first.then(|| self.writer.source(instruction.rs1, A));
        let second = has_second.then(|| self.writer.source(instruction.rs2, B));
        let mut word = with_register(bits, 7, target(instruction.rd));
        if let Some(first) = first {
            word = with_register(word, 15, first);
        }
        if let Some(second) = second {
            word = with_register(word, 20, second);
        }
        self.writer.put(word);
        self.writer.commit(instruction.rd);
        Flow::Next
    }
}

/// Puts a register into a field of an instruction.
pub(super) fn with_register(bits: u32, from: u32, register: u8) -> u32 {
    bits & !(31 << from) | u32::from(register) << from
}

/// Returns whether a block may begin with the instruction.
fn is_translated(instruction: &Instruction) -> bool {
    let Instruction { operation, rd, .. } = *instruction;
    integer::is_calculation(operation)
        || operation.memory_access().is_some()
        || matches!(operation.format(), Format::B | Format::J | Format::U)
        || matches!(
            operation,
            Operation::Jalr
                | Operation::Fence
                | Operation::LrW
                | Operation::LrD
                | Operation::ScW
                | Operation::ScD
                | Operation::CboZero
                | Operation::Fld
                | Operation::Fsd
        )
        || is_amo(operation) && !is_kept(rd)
        || is_csr(operation)
}

fn is_csr(operation: Operation) -> bool {
    operation.format() == Format::Csr
}

/// Returns whether the operation loads, combines and stores.
fn is_amo(operation: Operation) -> bool {
    const OPCODE: u32 = 0x2f;
    let is_reservation = matches!(
        operation,
        Operation::LrW | Operation::LrD | Operation::ScW | Operation::ScD
    );
    operation.encoding() & 0x7f == OPCODE && !is_reservation
}
