//! Runs a virtual hart: by blocks, and by the interpreter where there is none.

use core::cell::Cell;

use poorwill_hart::emulation::{cause, status};
use poorwill_hart::interrupt::{SEI, STI};
use poorwill_hart::page_entry::{self, Intent};
use poorwill_hart::{NEVER, PageTables};
use poorwill_isa::{Format, Instruction, Operation};
use poorwill_memory::PAGE_BYTES;

use super::cache::{Blocks, Found, PagesAre};
use super::region::{Environment, Place, Region};
use super::writer::{B, ENVIRONMENT, KEPT};
use crate::hart::{Fences, Mode, Stop, VirtualHart};
use crate::host::Host;
use crate::interpreter::{Flow, atomic};
use crate::state::Reservation;
use crate::trap::Trap;

/// Interrupts of the core that end translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The timer's deadline.
    pub deadline: u64,
    /// Interrupts of devices.
    pub external: bool,
}

/// The trap that has ended translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// `mcause`
    pub cause: u64,
    /// `mepc`
    pub address: u64,
}

/// The core, in its lower mode.
pub trait Core {
    /// Runs translated code from an address on until it traps. `x`: the core's registers, before and
    /// after.
    fn enter(
        &mut self,
        x: &mut [u64; 32],
        memory: (&Region, &mut Environment),
        at: u64,
        watch: Watch,
    ) -> Left;

    /// Lets the core see changed instructions.
    fn fence_instructions(&mut self);
}

/// What led to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// An exit of a block.
    Exit(Found),
    /// A jump to an address in a register.
    Jump,
    /// The first word of a block that was dropped.
    Dropped(usize),
    /// The interpreter, or a handler.
    Other,
}

/// How a hart goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// With a block at the hart's address, if there is one.
    Look(From),
    /// In a block.
    In(Found),
    /// With one instruction of a block, by the interpreter.
    Step(usize),
}

impl VirtualHart {
    /// Runs the hart, the one at `place` among its OS's, until its turn ends: at the time `until`, or
    /// earlier by another [`Stop`]. [`Stop::Lost`]: translated code has left its region, and the
    /// hart's state is unknown.
    pub fn run_translated(
        &mut self,
        place: usize,
        blocks: &mut Blocks<'_>,
        core: &mut impl Core,
        host: &impl Host,
        until: u64,
    ) -> Stop {
        if blocks.owner != place {
            blocks.owner = place;
            blocks.forget_pages();
        }
        let mut turn = Turn {
            until,
            others_interrupt: false,
        };
        let mut next = Next::Look(From::Other);
        loop {
            if host.time() >= until {
                return self.stopped(Stop::Turn);
            }
            self.settle(blocks, host);
            let before = self.pc;
            self.take_interrupt(host);
            if self.pc != before {
                next = Next::Look(From::Other);
            }
            let went = match next {
                Next::Look(from) => self.look(from, blocks, host),
                Next::In(found) => self.run_block(found, blocks, core, host, &mut turn),
                Next::Step(block) => self
                    .interpret(blocks, host)
                    .map(|_| blocks.place_at(block, self.pc))
                    .map(|place| place.map_or(Next::Look(From::Other), Next::In)),
            };
            next = match went {
                Ok(next) => next,
                Err(stop) => return self.stopped(stop),
            };
        }
    }

    /// Follows fences and changes of the address space.
    fn settle(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) {
        match core::mem::replace(&mut self.fences, Fences::None) {
            Fences::None => {}
            Fences::Page(address) if self.translates() => {
                blocks.forget_near(address);
                blocks.check_pages(Some(address), |page| self.code_at(page, host));
            }
            Fences::Page(_) | Fences::All => {
                blocks.forget_pages();
                blocks.pages_are = PagesAre::Unchecked;
            }
        }
    }

    /// Returns whether the blocks may run: their pages are in the OS's tables, or are dropped. While
    /// a hart starts, its first tables lack most pages.
    fn may_run(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) -> bool {
        let satp = self.csrs.satp;
        let looks = match blocks.pages_are {
            PagesAre::Checked => return true,
            PagesAre::Unchecked => 0,
            PagesAre::Missing { satp: last, looks } if last == satp => looks + 1,
            PagesAre::Missing { .. } => 0,
        };
        let is_asked = looks == 0 || looks >= PATIENCE;
        if is_asked
            && (looks >= PATIENCE || blocks.has_pages(|page| self.code_at(page, host).is_some()))
        {
            blocks.check_pages(None, |page| self.code_at(page, host));
            blocks.pages_are = PagesAre::Checked;
            return true;
        }
        blocks.pages_are = PagesAre::Missing { satp, looks };
        false
    }

    /// Returns whether S-mode's addresses are translated.
    fn translates(&self) -> bool {
        self.mode == Mode::Supervisor && self.csrs.satp != 0
    }

    /// Physical address of an instruction that can be translated: that of a page in memory, which is
    /// in all address spaces.
    fn code_at(&mut self, pc: u64, host: &impl Host) -> Option<u64> {
        if self.mode != Mode::Supervisor {
            return None;
        }
        PageTables::of_satp(self.csrs.satp)?;
        let place = self.translate(pc, Intent::Fetch, host).ok()?;
        let flags = self.flags_of(pc)?;
        (place.is_memory && flags & page_entry::GLOBAL != 0).then_some(place.physical)
    }

    /// Flags of a page that was just translated.
    fn flags_of(&self, address: u64) -> Option<u64> {
        let page = address - address % PAGE_BYTES;
        let space = (self.csrs.satp >> 44) as u16;
        let found = self.tlb.find(page, space)?;
        Some(found.flags.into())
    }

    /// Finds or makes the block at the hart's address; else interprets up to a jump.
    fn look(
        &mut self,
        from: From,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<Next, Stop> {
        let may_run = self.translates() && self.may_run(blocks, host);
        let found = match may_run {
            true => blocks.find(self.pc).or_else(|| self.make(blocks, host)),
            false => None,
        };
        let Some(block) = found else {
            self.interpret_to_jump(blocks, host)?;
            return Ok(Next::Look(From::Other));
        };
        match from {
            From::Exit(exit) => blocks.link(exit, block),
            From::Dropped(old) => blocks.forward(old, block),
            From::Jump => blocks.enter_jump(block),
            From::Other => {}
        }
        Ok(Next::In(Found { block, place: 0 }))
    }

    fn make(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) -> Option<usize> {
        if !blocks.is_frequent(self.pc) {
            return None;
        }
        let physical = self.code_at(self.pc, host)?;
        blocks.translate(self.pc, physical, host)
    }

    /// Runs translated code from a place on.
    fn run_block(
        &mut self,
        found: Found,
        blocks: &mut Blocks<'_>,
        core: &mut impl Core,
        host: &impl Host,
        turn: &mut Turn,
    ) -> Result<Next, Stop> {
        if core::mem::take(&mut blocks.has_changed) {
            core.fence_instructions();
        }
        let due = self.pending(host) & self.csrs.sie;
        let waits_for = |bit| self.csrs.sie & bit != 0 && due & bit == 0;
        let deadline = if waits_for(STI) {
            self.csrs.deadline
        } else {
            NEVER
        };
        let watch = Watch {
            deadline: deadline.min(turn.until),
            external: waits_for(SEI) && !turn.others_interrupt,
        };
        let at = blocks.address(found);
        let counted = blocks.uncounted(found);
        self.lend_registers(blocks, due != 0);
        let memory = (&*blocks.region, &mut *blocks.environment);
        let left = core.enter(&mut self.x, memory, at, watch);
        let jump = self.x[usize::from(B)];
        self.take_registers(blocks);
        let found = blocks.place_of(left.address).ok_or(Stop::Lost)?;
        let is_interrupt = left.cause & cause::INTERRUPT != 0;
        let next = self.leave(found, jump, left.cause, blocks)?;
        let counted = blocks.environment.instructions.wrapping_add(counted);
        let counted = counted.wrapping_sub(blocks.unreached(found, left.address));
        self.counts.instructions += counted;
        self.counts.translated += counted;
        if is_interrupt && self.pending(host) & self.csrs.sie == 0 {
            turn.others_interrupt = true;
        }
        Ok(next)
    }

    /// Finds the hart's address after a trap of translated code, and how it goes on.
    fn leave(
        &mut self,
        found: Found,
        jump: u64,
        cause: u64,
        blocks: &Blocks<'_>,
    ) -> Result<Next, Stop> {
        let (block, place) = blocks.at(found);
        let is_interrupt = cause & cause::INTERRUPT != 0;
        let is_break = cause == cause::BREAKPOINT;
        self.pc = match place.at {
            Place::LEAVES => blocks.next_of(found),
            Place::JUMPS => jump & !1,
            at => block.pc.wrapping_add(2 * u64::from(at)),
        };
        match place.at {
            Place::LEAVES | Place::JUMPS if is_interrupt => Ok(Next::Look(From::Other)),
            Place::LEAVES if is_break => Ok(Next::Look(From::Exit(found))),
            Place::JUMPS if is_break => Ok(Next::Look(From::Jump)),
            Place::LEAVES | Place::JUMPS => Err(Stop::Lost),
            0 if block.live == 0 => Ok(Next::Look(From::Dropped(found.block))),
            _ if is_interrupt => Ok(blocks
                .place_at(found.block, self.pc)
                .map_or(Next::Look(From::Other), Next::In)),
            _ => Ok(Next::Step(found.block)),
        }
    }

    /// Puts the registers as translated code has them.
    fn lend_registers(&mut self, blocks: &mut Blocks<'_>, attention: bool) {
        let page = blocks.page;
        let environment = &mut *blocks.environment;
        for kept in KEPT.map(usize::from) {
            environment.x[kept] = self.x[kept];
        }
        self.x[usize::from(ENVIRONMENT)] = page;
        environment.sstatus = self.csrs.whole_status();
        environment.attention = attention.into();
        let reservation = self.reservation.take();
        environment.reserved = reservation.map_or(0, |it| it.address | u64::from(it.bytes == 8));
        environment.reserved_value = reservation.map_or(0, |it| it.value);
        environment.instructions = 0;
    }

    /// Takes the OS's registers back. Of `sstatus` only SIE can have changed.
    fn take_registers(&mut self, blocks: &Blocks<'_>) {
        let environment = &*blocks.environment;
        for kept in KEPT.map(usize::from) {
            self.x[kept] = environment.x[kept];
        }
        self.x[0] = 0;
        let enabled = environment.sstatus & status::SIE;
        self.csrs.sstatus = self.csrs.sstatus & !status::SIE | enabled;
        self.reservation = match environment.reserved {
            0 => None,
            reserved => {
                let bytes = if reserved & 1 != 0 { 8 } else { 4 };
                let mask = u64::MAX >> (64 - 8 * bytes);
                Some(Reservation {
                    address: reserved & !1,
                    bytes,
                    value: environment.reserved_value & mask,
                })
            }
        };
    }

    /// Interprets up to a jump or branch, or up to another instruction that ends a block.
    fn interpret_to_jump(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) -> Result<(), Stop> {
        for _ in 0..LOOK_EVERY {
            let next = self.interpret(blocks, host)?;
            if next == Flow::Look || self.fences != Fences::None {
                break;
            }
        }
        Ok(())
    }

    /// Interprets an instruction. [`Flow::Look`]: also after jumps and exceptions.
    fn interpret(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) -> Result<Flow, Stop> {
        let watched = Watched {
            host,
            blocks,
            stored: Cell::new(None),
        };
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
        let stored = watched.stored.get();
        if let Some(physical) = stored {
            blocks.check_source(physical, host);
        }
        match executed {
            Ok(flow) => {
                self.counts.instructions += 1;
                if let Some((address, intent)) = access {
                    self.open_page(address, intent, blocks, host);
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

    /// Address and kind of an instruction's access.
    fn access_of(&self, instruction: &Instruction) -> Option<(u64, Intent)> {
        let Instruction {
            operation,
            rs1,
            immediate,
            ..
        } = *instruction;
        let is_load = match operation.memory_access() {
            Some(access) => access.direction != poorwill_isa::Direction::Store,
            None if atomic::bytes(operation).is_some() => {
                matches!(operation, Operation::LrW | Operation::LrD)
            }
            None if operation == Operation::CboZero => false,
            None => return None,
        };
        let intent = if is_load { Intent::Load } else { Intent::Store };
        Some((self.get(rs1).wrapping_add_signed(immediate.into()), intent))
    }

    /// Lets translated code access a page of the OS's memory that the instruction has just accessed.
    /// Pages with translated code take no stores, so that the interpreter sees these.
    fn open_page(
        &mut self,
        address: u64,
        intent: Intent,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) {
        let Some(flags) = self.flags_of(address) else {
            return;
        };
        let (has, needed) = (
            |bit| flags & bit != 0,
            match intent {
                Intent::Store => page_entry::WRITE | page_entry::DIRTY,
                Intent::Load | Intent::Fetch => page_entry::READ | page_entry::ACCESSED,
            },
        );
        let is_for_all = has(page_entry::GLOBAL) && !has(page_entry::USER);
        if !is_for_all || flags & needed != needed {
            return;
        }
        let Ok(place) = self.translate(address, intent, host) else {
            return;
        };
        let offset = address % PAGE_BYTES;
        let (page, physical) = (address - offset, place.physical - offset);
        let is_store = intent == Intent::Store;
        if place.is_memory && physical != 0 && !(is_store && blocks.has_code(physical)) {
            blocks.open(page, physical, is_store);
        }
    }
}

/// Instructions between two looks for interrupts.
const LOOK_EVERY: u64 = 64;

/// Looks for a block after which pages that the tables lack are dropped.
const PATIENCE: u32 = 64;

/// The end of a hart's turn.
struct Turn {
    until: u64,
    /// A device interrupts another hart.
    others_interrupt: bool,
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

/// Notes a store to a page with translated code.
struct Watched<'a, 'b, H> {
    host: &'a H,
    blocks: &'a Blocks<'b>,
    /// The last such page.
    stored: Cell<Option<u64>>,
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
        if self.blocks.has_code(page) {
            self.stored.set(Some(page));
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
