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
    /// Interprets an instruction. [`Flow::Look`]: also after jumps and exceptions.
    pub(super) fn interpret(
        &mut self,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<Flow, Stop> {
        let watched = Watched {
            host,
            blocks,
            stored: RefCell::default(),
        };
        let pc = self.pc;
        let fetched = self.fetch_instruction(&watched);
        let access = fetched.ok().and_then(|it| self.access_of(&it));
        let executed = fetched.and_then(|instruction| {
            let flow = self.execute(&instruction, &watched)?;
            Ok(if ends_block(&instruction) {
                later(flow)
            } else {
                flow
            })
        });
        for physical in watched.stored.into_inner() {
            blocks.check_source(physical, host);
        }
        match executed {
            Ok(flow) => {
                self.counts.instructions = self.counts.instructions.saturating_add(1);
                if let Some((base, address, intent)) = access {
                    self.note_access((pc, base), address, intent, blocks, host);
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

    /// Register, address and kind of an instruction's access.
    fn access_of(&self, instruction: &Instruction) -> Option<(u8, u64, Intent)> {
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
        Some((rs1, address, intent))
    }

    /// Notes what an instruction has just accessed. Lets translated code access that page, if it is
    /// the OS's memory outside all windows.
    fn note_access(
        &mut self,
        (pc, base): (u64, u8),
        address: u64,
        intent: Intent,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) {
        if !self.translates() {
            return;
        }
        let page = self.page_for_all(address, intent, host);
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
        let guess = blocks.windows.guess(base);
        let site = blocks.region.notes.note(pc, site, guess);
        if let Some(page) = page.filter(|_| site == Site::Table) {
            blocks.open(page, intent == Intent::Store);
        }
    }
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

/// Pages that an instruction stores to: two, and an entry of the tables for each.
const MOST_STORED: usize = 4;

/// Notes stores to pages with translated code.
struct Watched<'a, 'b, H> {
    host: &'a H,
    blocks: &'a Blocks<'b>,
    /// These pages.
    stored: RefCell<ArrayVec<u64, MOST_STORED>>,
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
