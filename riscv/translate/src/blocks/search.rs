//! Searches the OS's tables for windows and stacks, and checks what was found.

use core::ops::Range;

use poorwill_hart::PageTables;
use poorwill_hart::page_entry::{self, Intent};
use poorwill_memory::PAGE_BYTES;

use super::cache::{Blocks, Page, PagesAre};
use super::stacks::{Stack, Stacks};
use super::windows::{Window, Windows, guard};
use crate::hart::VirtualHart;
use crate::host::Host;

/// Searches for windows until one that was found is gone.
const MOST_SEARCHES: u8 = 8;

/// log2 of the bytes of a leaf that suggests a window: smaller ones map single objects.
const LARGE_LEAF: u8 = 21;

/// Largest part of a stack that is known.
const MOST_BYTES: u64 = 64 << 10;

/// Flags of leaves that translated code may load from, and store to.
const LOADED: u64 = page_entry::READ | page_entry::GLOBAL | page_entry::ACCESSED;
const STORED: u64 = LOADED | page_entry::WRITE | page_entry::DIRTY;
/// Flags that they do not have.
const OTHERS: u64 = page_entry::USER | page_entry::TYPE;

impl Blocks<'_> {
    /// The addresses that a distance leads to what translated code reaches: memory, and MTIME. The
    /// ranges are empty at the end of all addresses.
    fn ranges(&self, distance: u64) -> [Range<u64>; 2] {
        self.reach.map(|range| {
            let start = range.start.wrapping_sub(distance);
            start..start.checked_add(range.length()).unwrap_or(start)
        })
    }
}

impl VirtualHart {
    /// Returns whether the OS's tables have a distance for memory, and for MTIME.
    fn has_distance(&self, distance: u64, blocks: &Blocks<'_>, host: &impl Host) -> [bool; 2] {
        let is_good = |entry: u64| {
            let is_written = entry & page_entry::WRITE != 0;
            let is_clean = is_written && entry & page_entry::DIRTY == 0;
            entry & (LOADED | OTHERS) == LOADED && !is_clean
        };
        let tables = PageTables::of_satp(self.csrs.satp);
        blocks.ranges(distance).map(|range| {
            let word = |at| load_word(at, host);
            let run = |at, most, words| host.run_of_words(at, most, words);
            tables.is_some_and(|tables| tables.has_distance(range, distance, word, run, is_good))
        })
    }

    /// Looks whether a page that was accessed is in a window that is not known yet. `shift`: log2 of its
    /// leaf's bytes.
    pub(super) fn find_window(
        &self,
        distance: u64,
        shift: u8,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) {
        let windows = &blocks.windows;
        let free = windows.windows.iter().position(Option::is_none);
        let is_new = shift >= LARGE_LEAF && windows.with(distance).is_none();
        let Some(free) = free.filter(|_| is_new && windows.searches < MOST_SEARCHES) else {
            return;
        };
        blocks.windows.searches += 1;
        let [memory, time] = self.has_distance(distance, blocks, host);
        if memory && (time || guard(blocks.reach).is_some()) {
            let window = Window {
                distance,
                is_guarded: !time,
            };
            let code = self.page_for_all(self.pc, Intent::Fetch, host);
            let [memory, _] = blocks.reach;
            (blocks.windows).put(free, window, code.map(Page::distance));
            blocks.windows.find_select(memory);
            // What is known of accesses may be otherwise now, and pages with code, or the text, may have
            // writable addresses in it.
            blocks.index.notes.clear();
            blocks.clear();
            blocks.pages_are = PagesAre::Unchecked;
        }
    }

    /// After a fence or at a lending: drops all blocks if a window is gone.
    pub(super) fn check_windows(&self, blocks: &mut Blocks<'_>, host: &impl Host) {
        let is_there = |window: Window| {
            let [memory, time] = self.has_distance(window.distance, blocks, host);
            memory && (time || window.is_guarded)
        };
        let windows = blocks.windows;
        if !windows.found().all(is_there) {
            blocks.windows = Windows::default();
            blocks.index.notes.clear();
            blocks.clear();
        }
    }

    /// After a fence of one address: as [`check_windows`](Self::check_windows), if a window has it.
    pub(super) fn check_windows_near(
        &self,
        address: u64,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) {
        let windows = blocks.windows;
        let mut found = windows.found();
        let has = |range: &Range<u64>| range.contains(&address);
        if found.any(|window| blocks.ranges(window.distance).iter().any(has)) {
            self.check_windows(blocks, host);
        }
    }

    /// The page of an address, if translated code may access it: it is the OS's memory, and mapped so
    /// in all address spaces.
    pub(super) fn page_for_all(
        &self,
        address: u64,
        intent: Intent,
        host: &impl Host,
    ) -> Option<Page> {
        let tables = PageTables::of_satp(self.csrs.satp)?;
        let mapping = tables.mapping(address, |at| load_word(at, host))?;
        let needed = match intent {
            Intent::Store => STORED,
            Intent::Load | Intent::Fetch => LOADED,
        };
        let page = address & !(PAGE_BYTES - 1);
        let found = Page {
            page,
            physical: mapping.start | page & (mapping.bytes - 1),
            shift: mapping.bytes.trailing_zeros() as u8,
        };
        let is_good = mapping.entry & (needed | OTHERS) == needed;
        // No distance leads to address zero, which would be no entry of a table.
        (is_good && found.physical != 0 && host.is_memory(found.physical)).then_some(found)
    }

    /// Returns whether a window has a writable address of a physical page: translated code may then
    /// store there unseen.
    pub(super) fn is_writable_by_window(
        &self,
        physical: u64,
        windows: &Windows,
        host: &impl Host,
    ) -> bool {
        let Some(tables) = PageTables::of_satp(self.csrs.satp) else {
            return true;
        };
        let is_writable = |window: Window| {
            let address = physical.wrapping_sub(window.distance);
            let mapping = tables.mapping(address, |at| load_word(at, host));
            mapping.is_some_and(|mapping| mapping.entry & page_entry::WRITE != 0)
        };
        windows.found().any(is_writable)
    }
}

/// A word of the OS's tables.
pub(super) fn load_word(at: u64, host: &impl Host) -> Option<u64> {
    let page = at & !(PAGE_BYTES - 1);
    host.is_memory(page).then(|| host.load(at, 8))
}

impl Blocks<'_> {
    pub(super) fn forget_stacks(&mut self) {
        self.stacks = Stacks::default();
    }

    /// Tells translated code the stack with an address.
    pub(super) fn choose_stack(&mut self, address: u64) {
        let stack = self.stacks.choose(address).unwrap_or(Stack::NOWHERE);
        self.environment.stack_bytes = stack.bytes;
        self.environment.stack_start = stack.start;
        self.environment.stack_physical = stack.physical;
    }
}

impl VirtualHart {
    /// A page of a stack. A page with code or text is not one, as its stores are watched.
    fn stack_page(&self, page: u64, blocks: &Blocks<'_>, host: &impl Host) -> Option<Page> {
        let found = self.page_for_all(page, Intent::Store, host)?;
        let is_watched = blocks.has_code(found.physical) || blocks.text.has(found.physical);
        (!is_watched).then_some(found)
    }

    /// Returns whether an address is of a stack that is known, or finds it.
    pub(super) fn find_stack(
        &self,
        address: u64,
        blocks: &mut Blocks<'_>,
        host: &impl Host,
    ) -> bool {
        if blocks.stacks.with(address).is_some() {
            return true;
        }
        let mut start = address & !(PAGE_BYTES - 1);
        let Some(first) = self.stack_page(start, blocks, host) else {
            return false;
        };
        let distance = first.distance();
        let mut bytes = PAGE_BYTES;
        let mut shift = first.shift;
        let mut continues = |page: u64, bytes: u64| {
            if bytes >= MOST_BYTES || page == 0 {
                return false;
            }
            let found = self.stack_page(page, blocks, host);
            let Some(found) = found.filter(|found| found.distance() == distance) else {
                return false;
            };
            shift = shift.max(found.shift);
            true
        };
        while continues(start.wrapping_sub(PAGE_BYTES), bytes) {
            start = start.wrapping_sub(PAGE_BYTES);
            bytes += PAGE_BYTES;
        }
        while continues(start.wrapping_add(bytes), bytes) {
            bytes += PAGE_BYTES;
        }
        let physical = start.wrapping_add(distance);
        blocks.stacks.keep(Stack {
            start,
            bytes,
            physical,
            shift,
        });
        true
    }
}
