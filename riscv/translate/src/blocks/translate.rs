//! Translates the instructions of a block.

use arrayvec::ArrayVec;
use poorwill_isa::{FORMS, Format, Instruction, Operation, expand, is_long};
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::sites::Notes;
use super::stacks::Checked;
use super::values::Values;
use super::windows::Windows;
use super::writer::{A, B, BREAK, COUNTER, Full, LEAVE, Writer, is_kept, target};
use crate::host::Host;
use crate::interpreter::integer;

/// Maximum number of half-words of a block.
pub(super) const MOST_HALVES: usize = 120;

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

/// Double words with this number of half-words, and others before them.
const MOST_SOURCES: usize = MOST_HALVES / 4 + 1;

/// The OS's instructions from an address on, up to the end of their page.
#[derive(Debug)]
pub(super) struct Code {
    pub(super) pc: u64,
    /// Aligned double words with them.
    words: ArrayVec<u64, MOST_SOURCES>,
}

impl Code {
    /// Loads the instructions at an address, which has this physical address.
    pub(super) fn load(pc: u64, physical: u64, host: &impl Host) -> Self {
        let in_page = (PAGE_BYTES - pc % PAGE_BYTES).div_ceil(8);
        let mut words = ArrayVec::from([0; MOST_SOURCES]);
        words.truncate(in_page as usize);
        host.load_words(physical & !7, &mut words);
        Code { pc, words }
    }

    /// Half-words of the first double word before the first instruction.
    fn skipped(&self) -> usize {
        self.pc as usize % 8 / 2
    }

    /// The double words with the first half-words.
    pub(super) fn words_of(&self, halves: usize) -> &[u64] {
        &self.words[..(self.skipped() + halves).div_ceil(4)]
    }

    /// The instruction at a half-word, and its 32-bit encoding; `None` for an unknown one, or one
    /// that is not here as a whole.
    pub(super) fn instruction(&self, at: usize) -> Option<(Instruction, u32)> {
        instruction_of(&self.words, self.skipped(), at)
    }

    /// Address of a half-word.
    pub(super) fn address(&self, at: usize) -> u64 {
        self.pc.wrapping_add(2 * at as u64)
    }
}

/// As [`Code::instruction`], of double words. `skipped`: half-words before the first instruction.
pub(super) fn instruction_of(
    words: &[u64],
    skipped: usize,
    at: usize,
) -> Option<(Instruction, u32)> {
    let half = |at: usize| {
        let at = at + skipped;
        let word = words.get(at / 4)?;
        Some((word >> (16 * (at % 4)) & 0xffff) as u32)
    };
    let low = half(at).filter(|_| at < MOST_HALVES)?;
    let (bits, length) = match is_long(low) {
        true => (half(at + 1)? << 16 | low, 4),
        false => (expand(low as u16)?, 2),
    };
    let decoded = Instruction::decode(bits)?;
    Some((Instruction { length, ..decoded }, bits))
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
enum Exit {
    /// The interpreter executes the instruction of a place.
    Interpret { branch: usize, place: usize },
    /// As [`Interpret`](Exit::Interpret); the block does not go on afterwards.
    Look { branch: usize, place: usize },
    /// The block is left for the address at a distance.
    Leave { branch: usize, distance: i32 },
    /// The block is left for the address in a register, as the instruction of a place does.
    Jump {
        branch: usize,
        place: usize,
        register: u8,
    },
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
    (tables, notes, windows): (Tables, &Notes, Windows),
    x: &[u64; 32],
    options: Options,
) -> Result<Option<Translated>, Full> {
    let mut translator = Translator {
        writer,
        code,
        tables,
        notes,
        windows,
        values: Values::new(x),
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
    pub(super) notes: &'a Notes,
    pub(super) windows: Windows,
    pub(super) values: Values,
    /// The half-word of the current instruction.
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
        let mut flow = Flow::Branch;
        loop {
            let found = self.code.instruction(self.at);
            if self.at == 0 && !found.is_some_and(|(first, _)| is_translated(first)) {
                return None;
            }
            let is_long = self.writer.word >= MOST_WORDS || self.exits.remaining_capacity() < 8;
            let Some((instruction, bits)) = found.filter(|_| !is_long) else {
                self.end_count();
                self.writer.leave(self.distance(self.at));
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
            flow = self.instruction(&instruction, bits);
            self.follow_stack(&instruction);
            self.values.follow(self.code.address(self.at), &instruction);
            match flow {
                Flow::Next | Flow::Branch => {
                    self.count();
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
        let place = self.writer.place - 1;
        self.exits.push(Exit::Interpret { branch, place });
    }

    /// As [`interpret_at`](Self::interpret_at), but the block does not go on afterwards.
    pub(super) fn look_at(&mut self, branch: usize) {
        let place = self.writer.place - 1;
        self.exits.push(Exit::Look { branch, place });
    }

    /// Leaves the block where a branch goes, for the address in a register.
    pub(super) fn jump_at(&mut self, branch: usize, register: u8) {
        let place = self.writer.place - 1;
        self.exits.push(Exit::Jump {
            branch,
            place,
            register,
        });
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

    /// Leaves the block where a branch goes.
    pub(super) fn leave_at(&mut self, branch: usize, distance: i32) {
        self.exits.push(Exit::Leave { branch, distance });
    }

    fn put_exits(&mut self) {
        for exit in core::mem::take(&mut self.exits) {
            match exit {
                Exit::Interpret { branch, place } => {
                    self.land_at(branch, place);
                    self.writer.put(BREAK);
                }
                Exit::Look { branch, place } => {
                    self.land_at(branch, place);
                    self.writer.put(LEAVE);
                }
                Exit::Jump {
                    branch,
                    place,
                    register,
                } => {
                    self.land_at(branch, place);
                    self.jump_by_second(register);
                }
                Exit::Leave { branch, distance } => {
                    self.writer.land(branch);
                    self.writer.leave(distance);
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
        if integer::is_calculation(operation) {
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
fn is_translated(instruction: Instruction) -> bool {
    let Instruction { operation, rd, .. } = instruction;
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
