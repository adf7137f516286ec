//! Runs a virtual hart: by blocks, and by the interpreter elsewhere.

use poorwill_hart::PageTables;
use poorwill_memory::PAGE_BYTES;

use super::cache::{Blocks, PagesAre};
use super::enter::{After, Core, From, Next, Turn};
use super::found::Found;
use super::leaf::{CodeAt, CodeLeaves};
use super::text::Text;
use super::windows::Windows;
use crate::hart::{Fences, Mode, Stop, VirtualHart};
use crate::host::Host;
use crate::interpreter::Flow;
use crate::tlb::Translation;

impl VirtualHart {
    /// Runs the hart until its turn ends: at the time `until`, or earlier by another [`Stop`].
    /// [`Stop::Lost`]: translated code has left its region, and the hart's state is unknown.
    pub fn run_translated(
        &mut self,
        blocks: &mut Blocks<'_>,
        core: &mut impl Core,
        host: &impl Host,
        until: u64,
    ) -> Stop {
        let stop = self.run_turn(blocks, core, host, until);
        self.take_float(blocks);
        self.stopped(stop)
    }

    fn run_turn(
        &mut self,
        blocks: &mut Blocks<'_>,
        core: &mut impl Core,
        host: &impl Host,
        until: u64,
    ) -> Stop {
        let mut turn = Turn {
            until,
            due: 0,
            others_interrupt: false,
        };
        let mut next = Next::Look(From::Other);
        loop {
            let now = host.time();
            if now >= until {
                return Stop::Turn;
            }
            if self.fences_instructions || self.fences != Fences::None {
                let generation = blocks.generation;
                self.settle(blocks, host);
                if blocks.generation != generation {
                    next = Next::Look(From::Other);
                }
            }
            let due = self.pending_at(now, host) & self.csrs.sie;
            if due != 0 && self.lets_in() {
                self.take_first(due);
                next = Next::Look(From::Other);
            }
            let went = match next {
                Next::Look(from) => self.look(from, blocks, host),
                Next::In(found) => {
                    turn.due = due;
                    self.run_block(found, blocks, core, host, &mut turn)
                }
                Next::Step(block, after) => self.step_of(block, after, blocks, host),
            };
            next = match went {
                Ok(next) => next,
                Err(stop) => return stop,
            };
        }
    }

    /// Follows fences and changes of the address space.
    fn settle(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) {
        if core::mem::take(&mut self.fences_instructions) {
            blocks.check_unwatched(host);
        }
        match core::mem::replace(&mut self.fences, Fences::None) {
            Fences::None => {}
            Fences::Page(address) if self.translates() => {
                blocks.forget_near(address);
                self.check_windows_near(address, blocks, host);
                self.find_text_near(address, blocks, host);
                let known = (blocks.windows, blocks.text);
                let mut leaves = CodeLeaves::default();
                blocks.check_pages(Some(address), |page| {
                    self.code_at(page, &mut leaves, &known, host)
                });
            }
            Fences::Page(_) | Fences::All => blocks.pages_are = PagesAre::Unchecked,
        }
    }

    /// Returns whether the blocks may run: their pages are in the OS's tables, or are dropped. While
    /// a hart starts, its first tables lack most pages.
    fn may_run(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) -> bool {
        let satp = self.csrs.satp;
        let (looks, is_new) = match blocks.pages_are {
            PagesAre::Checked => return true,
            PagesAre::Unchecked => (0, true),
            // Harts with several address spaces take turns, so all looks count.
            PagesAre::Missing { satp: last, looks } => (looks + 1, last != satp),
        };
        let known = (blocks.windows, blocks.text);
        let mut leaves = CodeLeaves::default();
        // Tables that had all pages once are not those of a start.
        let mut has_all = || {
            let mut is_there = |page| leaves.find(self, page, host).is_some();
            blocks.whole_satp == satp || blocks.has_pages(&mut is_there)
        };
        if looks >= PATIENCE || is_new && has_all() {
            self.check_windows(blocks, host);
            blocks.forget_outside_windows();
            self.find_text(blocks, host);
            blocks.check_pages(None, |page| self.code_at(page, &mut leaves, &known, host));
            blocks.pages_are = PagesAre::Checked;
            blocks.whole_satp = satp;
            return true;
        }
        blocks.pages_are = PagesAre::Missing { satp, looks };
        false
    }

    /// Returns whether S-mode's addresses are translated.
    pub(super) fn translates(&self) -> bool {
        self.mode == Mode::Supervisor && PageTables::of_satp(self.csrs.satp).is_some()
    }

    /// The place of an instruction that can be translated: in a page in memory, which is in all
    /// address spaces.
    fn code_at(
        &mut self,
        pc: u64,
        leaves: &mut CodeLeaves,
        (windows, text): &(Windows, Text),
        host: &impl Host,
    ) -> Option<CodeAt> {
        let leaf = leaves.find(self, pc, host)?;
        let physical = leaf.place(pc)?;
        let is_memory = host.is_memory(physical & !(PAGE_BYTES - 1));
        let next = || leaf.place(pc.wrapping_add(PAGE_BYTES));
        is_memory.then(|| CodeAt {
            physical,
            shift: leaf.shift,
            // Text is watched while it is closed.
            is_unwatched: text.has(physical) || self.is_writable_by_window(physical, windows, host),
            goes_on: text.has(physical) && next().is_some_and(|next| text.has(next)),
        })
    }

    /// The translation of a page that was just used.
    fn used(&self, address: u64) -> Option<&Translation> {
        let page = address - address % PAGE_BYTES;
        let space = (self.csrs.satp >> 44) as u16;
        self.tlb.find(page, space)
    }

    /// Flags of the leaf of a page that was just translated, and log2 of its bytes.
    pub(super) fn leaf_of(&self, address: u64) -> Option<(u64, u8)> {
        let found = self.used(address)?;
        Some((found.flags.into(), found.shift))
    }

    /// Finds or makes the block at the hart's address; else interprets up to a jump.
    fn look(
        &mut self,
        from: From,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<Next, Stop> {
        let generation = blocks.generation;
        let may_run = self.translates() && self.may_run(blocks, host);
        let found = match may_run {
            true => (blocks.index.find(self.pc)).map_or_else(|| self.make(blocks, host), Ok),
            false => Err(LOOK_EVERY),
        };
        let block = match found {
            Ok(block) => block,
            Err(most) => {
                self.interpret_to_jump(most, blocks, host)?;
                return Ok(Next::Look(From::Other));
            }
        };
        match from {
            // A full cache was emptied, and the block that was left is gone.
            _ if blocks.generation != generation => {}
            From::Exit(exit) => blocks.link(exit, block),
            From::Dropped(old) => {
                blocks.forward(old, block);
                blocks.renew_jump(block);
                blocks.relink(block);
            }
            From::Jump => blocks.enter_jump(block),
            From::Other => {}
        }
        Ok(Next::In(Found { block, place: 0 }))
    }

    /// Interprets an instruction of a block, which then goes on with the next one. A block whose access
    /// has faulted is made anew, by what the instruction has reached.
    fn step_of(
        &mut self,
        block: usize,
        after: After,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<Next, Stop> {
        let pc = self.pc;
        let generation = blocks.generation;
        // The access may be not where its note, or a guess, has led translated code.
        let (_, is_new) = self.interpret(true, blocks, host)?;
        if (is_new || after == After::Drop) && blocks.generation == generation {
            blocks.drop_block(block);
        }
        let follows = after == After::Next && (2..=4).contains(&self.pc.wrapping_sub(pc));
        let place = blocks.place_at(block, self.pc).filter(|_| follows);
        Ok(place.map_or(Next::Look(From::Other), Next::In))
    }

    /// Makes the block at the hart's address. Else returns how many instructions are interpreted before
    /// the next look.
    fn make(&mut self, blocks: &mut Blocks<'_>, host: &impl Host) -> Result<usize, u64> {
        if blocks.is_refused(self.pc) {
            return Err(1);
        }
        if !blocks.is_frequent(self.pc) {
            return Err(LOOK_EVERY);
        }
        let at = blocks.recent_place(self.pc).or_else(|| {
            let known = (blocks.windows, blocks.text);
            self.code_at(self.pc, &mut CodeLeaves::default(), &known, host)
        });
        let made = blocks.translate((self.pc, &self.x), at.ok_or(LOOK_EVERY)?, host);
        // The instruction cannot be translated, but the next one can be.
        made.ok_or_else(|| {
            blocks.refuse(self.pc);
            1
        })
    }

    /// Interprets at most `most` instructions, up to a jump or branch, or up to another instruction that
    /// ends a block.
    fn interpret_to_jump(
        &mut self,
        most: u64,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> Result<(), Stop> {
        for _ in 0..most {
            let (next, _) = self.interpret(false, blocks, host)?;
            if next == Flow::Look || self.fences != Fences::None {
                break;
            }
        }
        Ok(())
    }
}

/// Instructions between two looks for interrupts.
const LOOK_EVERY: u64 = 64;

/// Looks for a block after which pages that the tables lack are dropped.
const PATIENCE: u32 = 64;
