//! The way into translated code, and back.

use poorwill_hart::NEVER;
use poorwill_hart::emulation::{cause, status};
use poorwill_hart::interrupt::{MEI, SEI, STI};
use poorwill_memory::PhysRange;

use super::cache::Blocks;
use super::found::Found;
use super::region::{Environment, Place, Region};
use super::stacks::STACK_POINTER;
use super::writer::{B, COUNTER, DISTANCE, ENVIRONMENT, KEPT, STACK, offset};
use crate::hart::{Stop, VirtualHart};
use crate::host::Host;
use crate::state::Reservation;

/// `mcause` of a device's interrupt.
const EXTERNAL: u64 = cause::INTERRUPT | MEI.ilog2() as u64;

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

    /// Closes a range of the OS's memory, and nothing else of it, to stores of translated code. The
    /// range is a claim of the OS. Returns false if the core cannot; then all of the memory is open.
    fn protect(&mut self, text: PhysRange) -> bool;
}

/// What led to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// An exit of a block.
    Exit(Found),
    /// A jump to an address in a register.
    Jump,
    /// The first word of a block that was dropped.
    Dropped(usize),
    /// The interpreter, or a handler.
    Other,
}

/// How a block goes on after an instruction that the interpreter has executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// With the next instruction.
    Next,
    /// The next instruction needs a check that this one has failed.
    Look,
    /// The instruction's access has faulted: the block is made anew.
    Drop,
}

/// How a hart goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// With a block at the hart's address, if there is one.
    Look(From),
    /// In a block.
    In(Found),
    /// With one instruction of a block, by the interpreter.
    Step(usize, After),
}

/// The end of a hart's turn.
pub(super) struct Turn {
    pub(super) until: u64,
    /// Interrupts of this hart that are pending and enabled, but not let in.
    pub(super) due: u64,
    /// A device interrupts another hart.
    pub(super) others_interrupt: bool,
}

impl VirtualHart {
    /// Runs translated code from a place on.
    pub(super) fn run_block(
        &mut self,
        found: Found,
        blocks: &mut Blocks<'_>,
        core: &mut impl Core,
        host: &impl Host,
        turn: &mut Turn,
    ) -> Result<Next, Stop> {
        blocks.close_text(core, host);
        if core::mem::take(&mut blocks.has_changed) {
            core.fence_instructions();
        }
        let due = turn.due;
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
        #[cfg(feature = "check")]
        let foreseen = {
            self.take_float(blocks);
            self.foresee(found, blocks, host)
        };
        let at = blocks.address(found);
        let counted = blocks.uncounted(found);
        self.lend_registers(blocks, due != 0);
        let memory = (&*blocks.region, &mut *blocks.environment);
        let left = core.enter(&mut self.x, memory, at, watch);
        let jump = self.x[usize::from(B)];
        // Any number may be there.
        let reached = self.x[usize::from(COUNTER)];
        blocks.stack_register = self.x[usize::from(STACK)];
        self.take_registers(blocks);
        let found = blocks.place_of(left.address).ok_or(Stop::Lost)?;
        let is_interrupt = left.cause & cause::INTERRUPT != 0;
        let next = self.leave(found, jump, left.cause, blocks)?;
        let counted = reached.wrapping_add(counted);
        let counted = counted.wrapping_sub(blocks.unreached(found, left.address));
        #[cfg(feature = "check")]
        if let Some(foreseen) = foreseen {
            self.take_float(blocks);
            let (_, place) = blocks.at(found);
            let compared = self.compare(&foreseen, (counted, place), blocks, host);
            compared.map_err(Stop::Differs)?;
        }
        let counts = &mut self.counts;
        counts.instructions = counts.instructions.saturating_add(counted);
        counts.translated = counts.translated.saturating_add(counted);
        // This one may have another interrupt, which is not let in: it would come back for ever.
        if left.cause == EXTERNAL && self.pending(host) & self.csrs.sie & SEI == 0 {
            turn.others_interrupt = true;
        }
        if is_interrupt && blocks.note_interrupt(found.block) {
            return Ok(Next::Look(From::Other));
        }
        Ok(next)
    }

    /// Finds the hart's address after a trap of translated code, and how it goes on.
    fn leave(
        &mut self,
        found: Found,
        jump: u64,
        cause: u64,
        blocks: &mut Blocks<'_>,
    ) -> Result<Next, Stop> {
        let (block, place) = blocks.at(found);
        let block = *block;
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
            _ if is_break => Ok(Next::Step(found.block, After::Next)),
            _ if cause == cause::USER_CALL => Ok(Next::Step(found.block, After::Look)),
            _ => Ok(Next::Step(found.block, After::Drop)),
        }
    }

    /// Puts the registers as translated code has them.
    fn lend_registers(&mut self, blocks: &mut Blocks<'_>, attention: bool) {
        let (page, stack) = (blocks.page, blocks.stack_register);
        blocks.choose_stack(self.x[usize::from(STACK_POINTER)]);
        let distances = [0, 1].map(|number| blocks.windows.distance(number));
        let environment = &mut *blocks.environment;
        for kept in KEPT.map(usize::from) {
            environment.x[kept] = self.x[kept];
        }
        self.x[usize::from(ENVIRONMENT)] = page.wrapping_add_signed(offset::BIAS.into());
        self.x[usize::from(COUNTER)] = 0;
        self.x[usize::from(STACK)] = stack;
        self.x[usize::from(DISTANCE)] = distances[0];
        environment.distance = distances[1];
        environment.selected = blocks.windows.selected();
        if self.csrs.has_float() && !blocks.has_float {
            environment.f = self.f;
            blocks.has_float = true;
        }
        environment.sstatus = self.csrs.whole_status();
        environment.attention = attention.into();
        let reservation = self.reservation.take();
        environment.reserved = reservation.map_or(0, |it| it.address | u64::from(it.bytes == 8));
        environment.reserved_value = reservation.map_or(0, |it| it.value);
    }

    /// Takes the floating-point registers back. They stay with translated code until they are needed.
    pub(super) fn take_float(&mut self, blocks: &mut Blocks<'_>) {
        if core::mem::take(&mut blocks.has_float) {
            self.f = blocks.environment.f;
        }
    }

    /// Takes the OS's other registers back. Of `sstatus` only SIE can have changed.
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
}
