//! The blocks: found by address, made, and linked.

use core::mem::offset_of;

use arrayvec::ArrayVec;
use poorwill_hart::page_entry::Intent;
use poorwill_isa::{Operation, encode};
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::leaf;
use super::region::{Block, Environment, HEADS, JUMPS, Place, REGION_BYTES, Region, SLOTS, Slot};
use super::stacks::Stacks;
use super::text::Text;
use super::translate::{self, Code, MOST_HALVES, Options, Tables};
use super::values::Values;
use super::windows::{self, Windows};
use super::writer::{A, Full, LEAVE_WORDS, Writer};
use crate::host::Host;

/// The count of an address whose first instruction the interpreter executes.
const NEVER: u8 = u8::MAX;

/// A place in translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of the block.
    pub(super) block: usize,
    /// Number of the place in the block.
    pub(super) place: usize,
}

/// Where the OS's tables map code.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeAt {
    pub(super) physical: u64,
    /// log2 of the bytes of the leaf.
    pub(super) shift: u8,
    /// Translated code may store there by a window.
    pub(super) is_unwatched: bool,
}

/// A page that the OS maps in all address spaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    pub(super) page: u64,
    pub(super) physical: u64,
    /// log2 of the bytes of the leaf.
    pub(super) shift: u8,
}

impl Page {
    /// `physical - page`
    pub(super) fn distance(self) -> u64 {
        self.physical.wrapping_sub(self.page)
    }
}

/// What is known about the pages with code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PagesAre {
    /// They are where they were translated.
    Checked,
    /// They may have moved.
    Unchecked,
    /// Some are not in the tables of this `satp`, which may be those of a start. `looks`: how many
    /// times the harts have looked for a block since pages are missing.
    Missing { satp: u64, looks: u32 },
}

/// The blocks of an OS.
#[derive(Debug)]
pub struct Blocks<'a> {
    pub(super) region: &'a mut Region,
    pub(super) environment: &'a mut Environment,
    /// Physical address of the region.
    base: u64,
    /// Physical address of the environment.
    pub(super) page: u64,
    pub(super) options: Options,
    pub(super) blocks: usize,
    pub(super) words: usize,
    pub(super) places: usize,
    pub(super) halves: usize,
    pub(super) pages: usize,
    /// Whether the pages are those of the OS's tables.
    pub(super) pages_are: PagesAre,
    /// Number of times that all blocks were dropped.
    pub(super) generation: u64,
    /// Translated instructions have changed: the core must not use old ones.
    pub(super) has_changed: bool,
    pub(super) windows: Windows,
    pub(super) stacks: Stacks,
    pub(super) text: Text,
    /// What translated code has left in [`STACK`](super::writer::STACK).
    pub(super) stack_register: u64,
    /// What translated code reaches: a range with the OS's memory, and MTIME's page.
    pub(super) reach: [PhysRange; 2],
    /// Instructions of blocks that were compared with the interpreter's.
    #[cfg(feature = "check")]
    pub(super) compared: u64,
}

impl<'a> Blocks<'a> {
    /// No blocks. `environment` lies at the physical address `page`, `region` follows it, and `memory`
    /// has all memory of the OS.
    #[must_use]
    pub fn new(
        region: &'a mut Region,
        environment: &'a mut Environment,
        page: u64,
        memory: PhysRange,
        options: Options,
    ) -> Self {
        let base = page + PAGE_BYTES;
        let own = PhysRange::new(page, PAGE_BYTES + REGION_BYTES);
        let time = environment.mtime & !(PAGE_BYTES - 1);
        let reach = [memory.hull(own), PhysRange::new(time, PAGE_BYTES)];
        let mut blocks = Blocks {
            region,
            environment,
            base,
            page,
            options,
            blocks: 0,
            words: 0,
            places: 0,
            halves: 0,
            pages: 0,
            pages_are: PagesAre::Checked,
            generation: 0,
            has_changed: false,
            windows: Windows::default(),
            stacks: Stacks::default(),
            text: Text::NONE,
            stack_register: 0,
            reach,
            #[cfg(feature = "check")]
            compared: 0,
        };
        blocks.region.notes.clear();
        blocks.clear();
        blocks
    }

    /// Drops all blocks.
    pub fn clear(&mut self) {
        self.blocks = 0;
        self.words = 0;
        self.places = 0;
        self.halves = 0;
        self.pages = 0;
        self.region.heads.fill(0);
        self.region.executions.fill(0);
        self.region.page_hash.fill(0);
        self.forget_jumps();
        self.forget_pages();
        self.generation += 1;
        self.has_changed = true;
    }

    /// Replaces words of translated code, for tests. Returns their number.
    #[cfg(feature = "fake")]
    pub fn replace(&mut self, word: u32, by: u32) -> usize {
        let words = self.region.words[..self.words].iter_mut();
        let found = words.filter(|it| **it == word);
        found.map(|it| *it = by).count()
    }

    /// Numbers of blocks, of their words, and of pages with code.
    #[must_use]
    pub fn sizes(&self) -> [usize; 3] {
        [self.blocks, self.words, self.pages]
    }

    pub(super) fn forget_jumps(&mut self) {
        self.region.jumps.fill(Slot::EMPTY);
    }

    /// Empties the tables of pages.
    pub(super) fn forget_pages(&mut self) {
        self.region.loads.fill(Slot::EMPTY);
        self.forget_stores();
    }

    /// Empties the entries of pages that are elsewhere now. `page_at`: what an address leads to.
    pub(super) fn check_tables(&mut self, page_at: impl Fn(u64, Intent) -> Option<Page>) {
        self.forget_stacks();
        let region = &mut *self.region;
        let loads = region.loads.iter_mut().map(|slot| (slot, Intent::Load));
        let stores = region.stores.iter_mut().map(|slot| (slot, Intent::Store));
        let shifts = region.shifts.iter_mut().flatten();
        for ((slot, intent), shift) in loads.chain(stores).zip(shifts) {
            if slot.tag == Slot::EMPTY.tag {
                continue;
            }
            let page = page_at(slot.tag.wrapping_mul(PAGE_BYTES), intent);
            match page.filter(|page| page.distance() == slot.value) {
                Some(page) => *shift = page.shift,
                None => *slot = Slot::EMPTY,
            }
        }
    }

    /// Empties the entries of pages that may be of the same leaf as an address.
    pub(super) fn forget_near(&mut self, address: u64) {
        self.forget_stacks();
        let tables = [&mut self.region.loads, &mut self.region.stores];
        for (table, shifts) in tables.into_iter().zip(&self.region.shifts) {
            for (slot, shift) in table.iter_mut().zip(shifts) {
                if leaf::has(slot.tag.wrapping_mul(PAGE_BYTES), *shift, address) {
                    *slot = Slot::EMPTY;
                }
            }
        }
    }

    pub(super) fn forget_stores(&mut self) {
        self.region.stores.fill(Slot::EMPTY);
        self.forget_stacks();
    }

    /// Lets translated code access a page. Pages with code and those of the text take no stores, so that
    /// the interpreter sees these.
    pub(super) fn open(&mut self, page: Page, stores: bool) {
        if stores && (self.has_code(page.physical) || self.text.has(page.physical)) {
            return;
        }
        let tag = page.page / PAGE_BYTES;
        let place = tag as usize % SLOTS;
        self.region.shifts[usize::from(stores)][place] = page.shift;
        let table = match stores {
            true => &mut self.region.stores,
            false => &mut self.region.loads,
        };
        table[place] = Slot {
            tag,
            value: page.distance(),
        };
    }

    fn address_of_word(&self, word: u32) -> u64 {
        self.base + offset_of!(Region, words) as u64 + 4 * u64::from(word)
    }

    fn tables(&self) -> Tables {
        Tables {
            reach: self.reach,
            guard: windows::guard(self.reach),
            loads: self.base + offset_of!(Region, loads) as u64,
            stores: self.base + offset_of!(Region, stores) as u64,
        }
    }

    fn head(pc: u64) -> usize {
        ((pc / 2) ^ (pc >> 13)) as usize % HEADS
    }

    /// The live block that begins at an address.
    pub(super) fn find(&self, pc: u64) -> Option<usize> {
        let mut next = self.region.heads[Self::head(pc)];
        while let Some(number) = usize::from(next).checked_sub(1) {
            let block = &self.region.blocks[number];
            if block.pc == pc && block.live != 0 {
                return Some(number);
            }
            next = block.next;
        }
        None
    }

    /// Physical address of the translation of a place's instruction.
    pub(super) fn address(&self, found: Found) -> u64 {
        let block = &self.region.blocks[found.block];
        let place = self.region.places[block.place as usize + found.place];
        self.address_of_word(block.word + u32::from(place.word))
    }

    /// What an address of translated code belongs to.
    pub(super) fn place_of(&self, address: u64) -> Option<Found> {
        let first = self.address_of_word(0);
        let word = u32::try_from(address.checked_sub(first)? / 4).ok()?;
        let blocks = &self.region.blocks[..self.blocks];
        let number = blocks.partition_point(|block| block.word <= word);
        let number = number.checked_sub(1)?;
        let block = &blocks[number];
        let in_block = word - block.word;
        if in_block >= u32::from(block.words) {
            return None;
        }
        let places = self.places_of(block);
        let place = places.partition_point(|place| u32::from(place.word) <= in_block);
        Some(Found {
            block: number,
            place: place.checked_sub(1)?,
        })
    }

    pub(super) fn places_of(&self, block: &Block) -> &[Place] {
        &self.region.places[block.place as usize..][..block.places.into()]
    }

    /// The place itself, and its block.
    pub(super) fn at(&self, found: Found) -> (&Block, Place) {
        let block = &self.region.blocks[found.block];
        (block, self.places_of(block)[found.place])
    }

    /// Where the block goes on with an address; `None` if no instruction of it is there.
    pub(super) fn place_at(&self, number: usize, pc: u64) -> Option<Found> {
        let block = self.region.blocks[..self.blocks].get(number)?;
        let at = u8::try_from(pc.wrapping_sub(block.pc) / 2).ok()?;
        if block.live == 0 || u16::from(at) >= block.halves {
            return None;
        }
        let inline = &self.places_of(block)[..block.inline.into()];
        let place = inline.partition_point(|place| place.at < at);
        let is_there = inline.get(place).is_some_and(|place| place.at == at);
        is_there.then_some(Found {
            block: number,
            place,
        })
    }

    /// The address that an exit of a block leads to.
    pub(super) fn next_of(&self, found: Found) -> u64 {
        let (block, place) = self.at(found);
        let word = block.word as usize + usize::from(place.word) + LEAVE_WORDS - 1;
        let distance = self.region.words[word].cast_signed();
        block.pc.wrapping_add_signed(distance.into())
    }

    /// Lets an exit of a block go to another block.
    pub(super) fn link(&mut self, from: Found, to: usize) {
        let (block, place) = self.at(from);
        let word = block.word + u32::from(place.word);
        if block.live != 0 && !self.options.is_checked() {
            self.put_jump(word, self.region.blocks[to].word);
        }
    }

    /// Lets a dropped block jump to the new one of its address.
    pub(super) fn forward(&mut self, old: usize, new: usize) {
        let word = self.region.blocks[old].word;
        if !self.options.is_checked() {
            self.put_jump(word, self.region.blocks[new].word);
        }
    }

    /// Puts a jump from a word to another one into one or two words.
    fn put_jump(&mut self, word: u32, to: u32) {
        let distance = 4 * (to.cast_signed() - word.cast_signed());
        let words = &mut self.region.words[word as usize..][..2];
        if (-(1 << 20)..1 << 20).contains(&distance) {
            words[0] = encode::j(Operation::Jal.encoding(), 0, distance);
        } else {
            let low = distance << 20 >> 20;
            let high = distance.wrapping_sub(low);
            words[0] = encode::u(Operation::Auipc.encoding(), A.into(), high);
            words[1] = encode::i(Operation::Jalr.encoding(), 0, A.into(), low);
        }
        self.has_changed = true;
    }

    /// Enters a block into the table of jumps.
    pub(super) fn enter_jump(&mut self, number: usize) {
        if self.options.is_checked() {
            return;
        }
        let block = &self.region.blocks[number];
        let slot = Slot {
            tag: block.pc,
            value: self.address_of_word(block.word),
        };
        self.region.jumps[(block.pc / 2) as usize % JUMPS] = slot;
    }

    /// Counts an execution of an address without a block. Returns whether it is to be translated.
    pub(super) fn is_frequent(&mut self, pc: u64) -> bool {
        let count = &mut self.region.executions[Self::head(pc)];
        match *count {
            NEVER => false,
            count if count >= self.options.executions => true,
            _ => {
                *count += 1;
                false
            }
        }
    }

    /// Translates the block at an address, which has this physical address. Returns its number.
    /// `x`: the hart's registers.
    pub(super) fn translate(
        &mut self,
        (pc, x): (u64, &[u64; 32]),
        at: CodeAt,
        host: &impl Host,
    ) -> Option<usize> {
        let in_page = (PAGE_BYTES - pc % PAGE_BYTES) as usize / 2;
        let mut halves = ArrayVec::from([0; MOST_HALVES]);
        halves.truncate(in_page);
        host.load_halves(at.physical, &mut halves);
        let code = Code { pc, halves };
        let values = Values::new(x);
        match self.try_translate(&code, at, values) {
            Ok(number) => number,
            Err(Full) => {
                self.clear();
                self.try_translate(&code, at, values).ok().flatten()
            }
        }
    }

    fn try_translate(
        &mut self,
        code: &Code,
        at: CodeAt,
        values: Values,
    ) -> Result<Option<usize>, Full> {
        if self.blocks >= self.region.blocks.len() {
            return Err(Full);
        }
        let base = self.address_of_word(self.words as u32);
        let tables = self.tables();
        let words = &mut self.region.words[self.words..];
        let places = &mut self.region.places[self.places..];
        let mut writer = Writer::new(words, places, base);
        let places = (tables, &self.region.notes, self.windows);
        let translated = translate::translate(&mut writer, code, places, values, self.options)?;
        // A dropped block has room for a jump.
        let (words, places) = (writer.word.max(2), writer.place);
        let Some(translated) = translated else {
            self.region.executions[Self::head(code.pc)] = NEVER;
            return Ok(None);
        };
        let source = &code.halves[..translated.halves];
        // Double words of both can be compared.
        self.halves += (at.physical as usize / 2).wrapping_sub(self.halves) % 4;
        let kept = self.region.halves.get_mut(self.halves..).unwrap_or(&mut []);
        kept.get_mut(..source.len())
            .ok_or(Full)?
            .copy_from_slice(source);
        let page = self.page_with(code.pc, at)?;
        let number = self.blocks;
        let head = &mut self.region.heads[Self::head(code.pc)];
        let of_page = &mut self.region.pages[page].first;
        self.region.blocks[number] = Block {
            pc: code.pc,
            physical: at.physical,
            word: self.words as u32,
            words: words as u16,
            halves: source.len() as u16,
            half: self.halves as u32,
            place: self.places as u32,
            inline: translated.inline as u16,
            places: places as u16,
            next: *head,
            next_of_page: *of_page,
            live: 1,
        };
        *head = number as u16 + 1;
        *of_page = number as u16 + 1;
        self.blocks += 1;
        self.words += words;
        self.places += places;
        self.halves += source.len();
        self.has_changed = true;
        Ok(Some(number))
    }
}
