//! The blocks: found by address, made, and linked.

use core::mem::offset_of;

use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::code::{Code, Extent};
use super::found::{Found, Recent};
use super::leaf::{self, CodeAt, Regions};
use super::region::{
    Block, CHUNK, Environment, Index, JUMP_SETS, RECENT_PAGES, REGION_BYTES, Region, SLOTS, Slot,
};
use super::stacks::Stacks;
use super::text::Text;
use super::translate::{self, Options, Tables};
use super::windows::{self, Windows};
use super::writer::{self, FORWARD_WORDS, Full, LEAVE_WORDS, Writer};
use crate::host::Host;

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

/// Instructions without a translation that are noted, a power of two.
const REFUSED: usize = 64;

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
    pub(super) index: &'a mut Index,
    pub(super) environment: &'a mut Environment,
    /// Physical address of the region.
    base: u64,
    /// Physical address of the environment.
    pub(super) page: u64,
    pub(super) options: Options,
    pub(super) blocks: usize,
    pub(super) words: usize,
    pub(super) places: usize,
    pub(super) lines: usize,
    pub(super) pages: usize,
    /// Numbers of pages that have had new blocks lately, plus one.
    pub(super) recent_pages: [u16; RECENT_PAGES],
    /// Where the tables of pages have some of larger leaves.
    large_leaves: Regions,
    /// Where the pages with code are.
    pub(super) in_pages: Regions,
    /// Whether the pages are those of the OS's tables.
    pub(super) pages_are: PagesAre,
    /// The `satp` with which they were checked last.
    pub(super) whole_satp: u64,
    /// Number of times that all blocks were dropped.
    pub(super) generation: u64,
    /// Places by words, and by blocks and the OS's instructions.
    pub(super) recent_words: Recent,
    pub(super) recent_instructions: Recent,
    /// Addresses of instructions that were lately found to have no translation, by their hash.
    refused: [u64; REFUSED],
    /// Translated instructions have changed: the core must not use old ones.
    pub(super) has_changed: bool,
    pub(super) windows: Windows,
    pub(super) stacks: Stacks,
    /// The environment has the floating-point registers of the hart that runs.
    pub(super) has_float: bool,
    pub(super) text: Text,
    /// What translated code has left in [`STACK`](super::writer::STACK).
    pub(super) stack_register: u64,
    /// What translated code reaches: a range with the OS's memory, and MTIME's page.
    pub(super) reach: [PhysRange; 2],
    /// A bit that [`guard`](windows::guard) names.
    guard: Option<u32>,
    /// Instructions of blocks that were compared with the interpreter's.
    #[cfg(feature = "check")]
    pub(super) compared: u64,
}

impl<'a> Blocks<'a> {
    /// No blocks. The environment lies at the physical address `page`, the region follows it, and `memory`
    /// has all memory of the OS.
    #[must_use]
    pub fn new(
        (index, region, environment): (&'a mut Index, &'a mut Region, &'a mut Environment),
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
            index,
            environment,
            base,
            page,
            options,
            blocks: 0,
            words: 0,
            places: 0,
            lines: 0,
            pages: 0,
            recent_pages: [0; RECENT_PAGES],
            large_leaves: Regions::default(),
            in_pages: Regions::default(),
            pages_are: PagesAre::Checked,
            whole_satp: 0,
            generation: 0,
            recent_words: Recent::EMPTY,
            recent_instructions: Recent::EMPTY,
            refused: [0; REFUSED],
            has_changed: false,
            windows: Windows::default(),
            stacks: Stacks::default(),
            has_float: false,
            text: Text::NONE,
            stack_register: 0,
            reach,
            guard: windows::guard(reach),
            #[cfg(feature = "check")]
            compared: 0,
        };
        blocks.index.notes.clear();
        blocks.clear();
        blocks
    }

    /// Drops all blocks.
    pub fn clear(&mut self) {
        self.blocks = 0;
        self.words = 0;
        self.places = 0;
        self.lines = 0;
        self.pages = 0;
        self.recent_pages.fill(0);
        self.in_pages = Regions::default();
        self.recent_words = Recent::EMPTY;
        self.recent_instructions = Recent::EMPTY;
        self.forget_refused();
        self.index.heads.fill(0);
        self.index.executions.fill(0);
        self.index.page_hash.fill(0);
        self.index.line_hash.fill(0);
        self.region.jumps.fill([Slot::EMPTY; 2]);
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

    /// Half-words of the OS's instructions that the blocks have, for tests.
    #[cfg(feature = "fake")]
    #[must_use]
    pub fn halves(&self) -> usize {
        let blocks = &self.index.blocks[..self.blocks];
        blocks.iter().map(|block| usize::from(block.halves)).sum()
    }

    /// Numbers of blocks, of their words, and of pages with code.
    #[must_use]
    pub fn sizes(&self) -> [usize; 3] {
        [self.blocks, self.words, self.pages]
    }

    /// Empties the tables of pages.
    fn forget_pages(&mut self) {
        self.large_leaves = Regions::default();
        self.region.loads.fill(Slot::EMPTY);
        self.forget_stores();
    }

    /// Empties the entries of pages that are in no window. The windows were just checked.
    pub(super) fn forget_outside_windows(&mut self) {
        let windows = self.windows;
        for slot in self.region.loads.iter_mut().chain(&mut self.region.stores) {
            if windows.with(slot.value).is_none() {
                *slot = Slot::EMPTY;
            }
        }
        self.forget_stacks();
    }

    /// Empties the entries of pages that may be of the same leaf as an address.
    pub(super) fn forget_near(&mut self, address: u64) {
        self.stacks.forget_near(address);
        let own = Self::slot_of(address);
        let all = match self.large_leaves.may_have(address) {
            true => 0..SLOTS,
            false => own..own + 1,
        };
        let tables = [&mut self.region.loads, &mut self.region.stores];
        for (table, shifts) in tables.into_iter().zip(&self.index.shifts) {
            for (slot, shift) in table[all.clone()].iter_mut().zip(&shifts[all.clone()]) {
                if leaf::has(slot.tag.wrapping_mul(PAGE_BYTES), *shift, address) {
                    *slot = Slot::EMPTY;
                }
            }
        }
    }

    /// Number of an address's entry in a table of pages.
    fn slot_of(address: u64) -> usize {
        (address / PAGE_BYTES) as usize % SLOTS
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
        if page.shift > leaf::PAGE_SHIFT {
            self.large_leaves.note(page.page, page.shift);
        }
        let tag = page.page / PAGE_BYTES;
        let place = Self::slot_of(page.page);
        self.index.shifts[usize::from(stores)][place] = page.shift;
        let table = match stores {
            true => &mut self.region.stores,
            false => &mut self.region.loads,
        };
        table[place] = Slot {
            tag,
            value: page.distance(),
        };
    }

    pub(super) fn address_of_word(&self, word: u32) -> u64 {
        self.base + offset_of!(Region, words) as u64 + 4 * u64::from(word)
    }

    fn tables(&self) -> Tables {
        Tables {
            reach: self.reach,
            guard: self.guard,
            loads: self.base + offset_of!(Region, loads) as u64,
            stores: self.base + offset_of!(Region, stores) as u64,
        }
    }

    /// Physical address of the translation of a place's instruction.
    pub(super) fn address(&self, found: Found) -> u64 {
        let block = &self.index.blocks[found.block];
        let place = self.region.places[block.place as usize + found.place];
        self.address_of_word(block.word + u32::from(place.word))
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
            self.put_jump(word, self.index.blocks[to].word);
        }
    }

    /// Lets a dropped block jump to the new one of its address.
    pub(super) fn forward(&mut self, old: usize, new: usize) {
        let word = self.index.blocks[old].word;
        if !self.options.is_checked() {
            self.put_jump(word, self.index.blocks[new].word);
        }
    }

    fn put_jump(&mut self, word: u32, to: u32) {
        writer::put_jump(&mut self.region.words[word as usize..][..2], word, to);
        self.has_changed = true;
    }

    /// Lets jumps that lead to a dropped block of the same address go to a block.
    pub(super) fn renew_jump(&mut self, number: usize) {
        let pc = self.index.blocks[number].pc;
        let set = &self.region.jumps[(pc / 2) as usize % JUMP_SETS];
        if set.iter().any(|slot| slot.tag == pc) {
            self.enter_jump(number);
        }
    }

    /// Enters a block into the table of jumps.
    pub(super) fn enter_jump(&mut self, number: usize) {
        if self.options.is_checked() {
            return;
        }
        let block = &self.index.blocks[number];
        let slot = Slot {
            tag: block.pc,
            value: self.address_of_word(block.word),
        };
        let set = &mut self.region.jumps[(block.pc / 2) as usize % JUMP_SETS];
        if set[0].tag != slot.tag {
            set[1] = set[0];
        }
        set[0] = slot;
    }

    /// Counts an execution of an address without a block. Returns whether it is to be translated.
    pub(super) fn is_frequent(&mut self, pc: u64) -> bool {
        let count = &mut self.index.executions[Index::head(pc)];
        let is_frequent = *count >= self.options.executions;
        *count = count.saturating_add(1);
        is_frequent
    }

    /// Notes that the instruction at an address has no translation.
    pub(super) fn refuse(&mut self, pc: u64) {
        self.refused[Self::place_of_refused(pc)] = pc;
    }

    /// Returns whether the instruction at an address was lately found to have no translation. It may be
    /// another one since, which costs time alone.
    pub(super) fn is_refused(&self, pc: u64) -> bool {
        self.refused[Self::place_of_refused(pc)] == pc
    }

    pub(super) fn forget_refused(&mut self) {
        self.refused.fill(0);
    }

    fn place_of_refused(pc: u64) -> usize {
        (pc / 2) as usize % REFUSED
    }

    /// Translates the block at an address, which has this physical address. Returns its number.
    /// `x`: the hart's registers.
    pub(super) fn translate(
        &mut self,
        (pc, x): (u64, &[u64; 32]),
        at: CodeAt,
        host: &impl Host,
    ) -> Option<usize> {
        let extent = self.index.extent(pc);
        let mut code = Code::new(pc, at);
        code.read(extent, self.index, host);
        match self.try_translate((&code, extent), at, x, host) {
            Ok(number) => number,
            Err(Full) => {
                self.clear();
                let again = self.try_translate((&code, extent), at, x, host);
                again.ok().flatten()
            }
        }
    }

    fn try_translate(
        &mut self,
        (code, extent): (&Code, Extent),
        at: CodeAt,
        x: &[u64; 32],
        host: &impl Host,
    ) -> Result<Option<usize>, Full> {
        if self.blocks >= self.index.blocks.len() {
            return Err(Full);
        }
        let first = self.words as u32;
        let base = self.address_of_word(first);
        let tables = self.tables();
        let words = &mut self.region.words[self.words..];
        let places = &mut self.region.places[self.places..];
        let mut writer = Writer::new(words, places, (first, base));
        let places = (tables, &*self.index, &self.windows);
        let translated = translate::translate(&mut writer, code, places, x, self.options)?;
        // A dropped block has room for a jump.
        let (words, places) = (writer.word.max(FORWARD_WORDS), writer.place);
        let Some(translated) = translated else {
            return Ok(None);
        };
        self.keep_source(code, translated.halves, host)?;
        let page = self.page_with(code.pc, at)?;
        if code.crosses(translated.halves) {
            self.enter_next(page)?;
        }
        let number = self.blocks;
        let head = &mut self.index.heads[Index::head(code.pc)];
        let of_page = &mut self.index.pages[page].first;
        self.index.blocks[number] = Block {
            pc: code.pc,
            word: first,
            words: words as u16,
            halves: translated.halves as u16,
            place: self.places as u32,
            inline: translated.inline as u16,
            places: places as u16,
            next: *head,
            page: page as u16,
            next_of_page: *of_page,
            live: 1,
            is_long: (extent == Extent::Long).into(),
        };
        for chunk in self.words.div_ceil(CHUNK)..(self.words + words).div_ceil(CHUNK) {
            self.index.chunks[chunk] = number as u16;
        }
        *head = number as u16 + 1;
        *of_page = number as u16 + 1;
        self.blocks += 1;
        self.words += words;
        self.places += places;
        self.has_changed = true;
        Ok(Some(number))
    }
}
