//! What the interpreter does between blocks: it fills the tables of pages, and notes stores to code.

use core::cell::RefCell;

use arrayvec::ArrayVec;
use poorwill_hart::page_entry::Intent;
use poorwill_isa::{Direction, Format, Instruction, Operation};
use poorwill_memory::PAGE_BYTES;

use super::cache::{Blocks, Page};
use super::sites::Site;
use super::stacks::STACK_POINTER;
use crate::hart::{Stop, VirtualHart};
use crate::host::Host;
use crate::interpreter::{Flow, atomic, integer};
use crate::trap::Trap;

impl VirtualHart {
    /// Interprets an instruction. [`Flow::Look`]: also after jumps and exceptions. `has_block`: it
    /// has a translation, which may be for another access. Returns also whether a note was made.
    pub(super) fn interpret(
        &mut self,
        has_block: bool,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<(Flow, bool), Stop> {
        self.settle_shortcuts();
        let stored = RefCell::default();
        let fetched = self.fetch_instruction(&Watched {
            host,
            blocks,
            stored: &stored,
        });
        let executed = match fetched {
            Ok(instruction) if integer::is_calculation(instruction.operation) => {
                self.execute(instruction, host).map(|flow| (flow, false))
            }
            Ok(instruction) => {
                self.interpret_fetched(instruction, has_block, &stored, (blocks, host))
            }
            Err(trap) => Err(trap),
        };
        for physical in stored.into_inner() {
            blocks.check_source(physical, host);
        }
        match executed {
            Ok((Flow::Stop(stop), _)) => {
                self.counts.instructions = self.counts.instructions.saturating_add(1);
                Err(stop)
            }
            Ok(went) => {
                self.counts.instructions = self.counts.instructions.saturating_add(1);
                Ok(went)
            }
            Err(Trap::Exception(exception)) => {
                self.counts.exceptions += 1;
                self.enter_handler(exception.cause, exception.value);
                Ok((Flow::Look, false))
            }
            Err(Trap::Stop(stop)) => Err(stop),
        }
    }

    fn interpret_fetched<'b, H: Host>(
        &mut self,
        instruction: Instruction,
        has_block: bool,
        stored: &Stored,
        (blocks, host): (&mut Blocks<'b>, &H),
    ) -> Result<(Flow, bool), Trap> {
        if is_float(instruction.operation) {
            self.take_float(blocks);
        }
        let pc = self.pc;
        let access = self.access_of(&instruction);
        let flow = self.execute(
            instruction,
            &Watched {
                host,
                blocks,
                stored,
            },
        )?;
        let Some(access) = access else {
            let ends_block = ends_block(&instruction);
            return Ok((if ends_block { later(flow) } else { flow }, false));
        };
        let guess = (!has_block).then(|| blocks.windows.guess(access.base));
        Ok((flow, self.note_access((pc, guess), access, blocks, host)))
    }

    fn access_of(&self, instruction: &Instruction) -> Option<Access> {
        let Instruction {
            operation,
            rs1,
            immediate,
            ..
        } = *instruction;
        let is_load = match operation.memory_access() {
            Some(access) => access.direction != Direction::Store,
            None if operation == Operation::Fld => true,
            None if operation == Operation::Fsd => false,
            None if atomic::bytes(operation).is_some() => {
                matches!(operation, Operation::LrW | Operation::LrD)
            }
            None if operation == Operation::CboZero => false,
            None => return None,
        };
        let intent = if is_load { Intent::Load } else { Intent::Store };
        let address = self.get(rs1).wrapping_add_signed(immediate.into());
        Some(Access {
            base: rs1,
            address,
            intent,
        })
    }

    /// Notes what the instruction at `pc` has just accessed, unless it is the guess. Lets translated
    /// code access that page, if it is the OS's memory outside all windows. Returns whether the note is
    /// new.
    #[inline(never)]
    fn note_access(
        &mut self,
        (pc, guess): (u64, Option<Site>),
        access: Access,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> bool {
        if !self.translates() {
            return false;
        }
        let Access {
            base,
            address,
            intent,
        } = access;
        let noted = blocks.index.notes.noted(pc);
        let known = noted.or(guess);
        match self.shortcuts.find(intent, address, 1) {
            // As most registers of devices.
            None if known == Some(Site::Table) => return false,
            Some(physical) if blocks.expects(known, &access, physical) => return false,
            _ => {}
        }
        let page = self.page_for_all(address, intent, host);
        let has_windows = !blocks.options.tables_only;
        if let Some(page) = page.filter(|_| has_windows) {
            self.find_window(page.distance(), page.shift, blocks, host);
        }
        // An instruction that is noted there stays with the table.
        if !has_windows || blocks.index.notes.noted(pc) == Some(Site::Table) {
            (page.into_iter()).for_each(|page| blocks.open(page, intent == Intent::Store));
            return false;
        }
        // A store to text faults by a window.
        let is_open = |page: &Page| intent != Intent::Store || !blocks.text.has(page.physical);
        let window = page
            .filter(is_open)
            .and_then(|page| blocks.windows.with(page.distance()));
        let site = match window {
            _ if base == STACK_POINTER && self.find_stack(address, blocks, host) => Site::Stack,
            Some(number) => Site::Window(number),
            None => Site::Table,
        };
        let site = blocks.index.notes.note(pc, site, guess);
        let site = blocks.windows.usable(site);
        if let Some(page) = page.filter(|_| site == Site::Table) {
            blocks.open(page, intent == Intent::Store);
        }
        blocks.index.notes.noted(pc) != noted
    }
}

impl Blocks<'_> {
    /// Returns whether an access is where its site leads to. Then there is nothing to note.
    fn expects(&self, site: Option<Site>, access: &Access, physical: u64) -> bool {
        let number = self.windows.with(physical.wrapping_sub(access.address));
        match site {
            Some(Site::Window(own)) => number == Some(own) && !self.text.has(physical),
            Some(Site::Both) => {
                let can_tell = self.windows.select.is_some();
                can_tell && number.is_some() && !self.text.has(physical)
            }
            Some(Site::Stack) => {
                access.base == STACK_POINTER && self.stacks.with(access.address).is_some()
            }
            _ => false,
        }
    }
}

/// An instruction's access.
#[derive(Clone, Copy)]
struct Access {
    /// The register of the address.
    base: u8,
    address: u64,
    intent: Intent,
}

/// After a jump the interpreter looks for a block.
fn later(flow: Flow) -> Flow {
    match flow {
        Flow::Next => Flow::Look,
        flow => flow,
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    let operation = instruction.operation;
    matches!(operation.format(), Format::B | Format::J) || operation == Operation::Jalr
}

/// Returns whether the operation uses floating-point registers (unprivileged specification, chapter 35).
fn is_float(operation: Operation) -> bool {
    const OPCODES: [u32; 7] = [0x07, 0x27, 0x43, 0x47, 0x4b, 0x4f, 0x53];
    OPCODES.contains(&(operation.encoding() & 0x7f))
}

/// Pages that an instruction stores to: two, and an entry of the tables for each.
const MOST_STORED: usize = 4;

/// Pages with translated code that an instruction has stored to.
type Stored = RefCell<ArrayVec<u64, MOST_STORED>>;

/// Notes stores to pages with translated code.
struct Watched<'a, 'b, H> {
    host: &'a H,
    blocks: &'a Blocks<'b>,
    stored: &'a Stored,
}

impl<H: Host> Host for Watched<'_, '_, H> {
    fn is_memory(&self, page: u64) -> bool {
        self.host.is_memory(page)
    }

    fn load(&self, address: u64, bytes: u64) -> u64 {
        self.host.load(address, bytes)
    }

    fn store(&self, address: u64, bytes: u64, value: u64) {
        self.host.store(address, bytes, value);
        let page = address - address % PAGE_BYTES;
        let mut stored = self.stored.borrow_mut();
        if self.blocks.has_code(page) && !stored.contains(&page) {
            stored.push(page);
        }
    }

    fn load_device(&self, address: u64, bytes: u64) -> Option<u64> {
        self.host.load_device(address, bytes)
    }

    fn store_device(&self, address: u64, bytes: u64, value: u64) -> Option<()> {
        self.host.store_device(address, bytes, value)
    }

    fn fence(&self) {
        self.host.fence();
    }

    fn time(&self) -> u64 {
        self.host.time()
    }

    fn external_interrupt(&self) -> bool {
        self.host.external_interrupt()
    }
}
