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
use crate::interpreter::{Flow, atomic};
use crate::trap::Trap;

impl VirtualHart {
    /// Interprets an instruction. [`Flow::Look`]: also after jumps and exceptions. `has_block`: it
    /// has a translation, which may be for another access.
    pub(super) fn interpret(
        &mut self,
        has_block: bool,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<Flow, Stop> {
        let stored = RefCell::default();
        let fetched = self.fetch_instruction(&Watched {
            host,
            blocks,
            stored: &stored,
        });
        if fetched.is_ok_and(|instruction| is_float(instruction.operation)) {
            self.take_float(blocks);
        }
        let watched = Watched {
            host,
            blocks,
            stored: &stored,
        };
        let pc = self.pc;
        let access = fetched.ok().and_then(|it| self.access_of(&it));
        let executed = fetched.and_then(|instruction| {
            let flow = self.execute(&instruction, &watched)?;
            Ok(if ends_block(&instruction) {
                later(flow)
            } else {
                flow
            })
        });
        for physical in stored.into_inner() {
            blocks.check_source(physical, host);
        }
        match executed {
            Ok(flow) => {
                self.counts.instructions = self.counts.instructions.saturating_add(1);
                if let Some(access) = access {
                    let guess = (!has_block).then(|| blocks.windows.guess(access.base));
                    self.note_access((pc, guess), access, blocks, host);
                }
                match flow {
                    Flow::Stop(stop) => Err(stop),
                    flow => Ok(flow),
                }
            }
            Err(Trap::Exception(exception)) => {
                self.counts.exceptions += 1;
                self.enter_handler(exception.cause, exception.value);
                Ok(Flow::Look)
            }
            Err(Trap::Stop(stop)) => Err(stop),
        }
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
    /// code access that page, if it is the OS's memory outside all windows.
    fn note_access(
        &mut self,
        (pc, guess): (u64, Option<Site>),
        access: Access,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) {
        if !self.translates() {
            return;
        }
        let Access {
            base,
            address,
            intent,
        } = access;
        // As most registers of devices.
        if blocks.index.notes.noted(pc) == Some(Site::Table) && !self.is_memory_at(address) {
            return;
        }
        let page = self.page_for_all(address, intent, host);
        if blocks.options.tables_only {
            return (page.into_iter()).for_each(|page| blocks.open(page, intent == Intent::Store));
        }
        if let Some(page) = page {
            self.find_window(page.distance(), page.shift, blocks, host);
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
    }
}

/// An instruction's access.
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

/// Notes stores to pages with translated code.
struct Watched<'a, 'b, H> {
    host: &'a H,
    blocks: &'a Blocks<'b>,
    /// These pages.
    stored: &'a RefCell<ArrayVec<u64, MOST_STORED>>,
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
