//! Searches the OS's tables for its text, and lets the core close it.

use poorwill_hart::PageTables;
use poorwill_hart::page_entry;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::cache::{Blocks, PagesAre};
use super::enter::Core;
use super::search::load_word;
use super::text::Found;
use crate::hart::VirtualHart;
use crate::host::Host;

/// Most leaves of the text on each side of that with `stvec`.
const MOST_LEAVES: u32 = 32;

/// Flags of the text's leaves, and those that they do not have.
const FLAGS: u64 = page_entry::EXECUTE | page_entry::GLOBAL | page_entry::ACCESSED;
const OTHERS: u64 = page_entry::WRITE | page_entry::USER | page_entry::TYPE;

impl Blocks<'_> {
    /// Lets the core close the text that was found. A core that cannot leaves it open.
    pub(super) fn close_text(&mut self, core: &mut impl Core, host: &impl Host) {
        if !core::mem::take(&mut self.text.is_new) {
            return;
        }
        let text = self.text.found.physical;
        let closed = if core.protect(text) {
            text
        } else {
            PhysRange::EMPTY
        };
        // Stores have come unseen up to now. From now on they fault, also by known entries.
        self.check_unwatched(host);
        self.forget_stores();
        self.text.closed = closed;
        // Pages may go on in it now.
        self.pages_are = PagesAre::Unchecked;
        self.forget_refused();
    }
}

impl VirtualHart {
    /// Looks where the text is now.
    pub(super) fn find_text(&self, blocks: &mut Blocks<'_>, host: &impl Host) {
        let found = self.text_around(self.csrs.stvec & !3, host);
        let text = &mut blocks.text;
        text.is_new |= found.physical != text.found.physical;
        text.found = found;
    }

    /// As [`find_text`](Self::find_text), after a fence of one address, if that is of the text.
    pub(super) fn find_text_near(&self, address: u64, blocks: &mut Blocks<'_>, host: &impl Host) {
        let Found { start, physical } = blocks.text.found;
        if address.wrapping_sub(start) < physical.length() {
            self.find_text(blocks, host);
        }
    }

    fn text_around(&self, address: u64, host: &impl Host) -> Found {
        let Some(mut text) = self.text_at(address, host) else {
            return Found::NOTHING;
        };
        for _ in 0..MOST_LEAVES {
            let before = text.start.wrapping_sub(1);
            match self.text_at(before, host) {
                Some(leaf) if leaf.physical.end == text.physical.start && text.start != 0 => {
                    text.start = leaf.start;
                    text.physical.start = leaf.physical.start;
                }
                _ => break,
            }
        }
        for _ in 0..MOST_LEAVES {
            let end = text.start.wrapping_add(text.physical.length());
            match self.text_at(end, host) {
                Some(leaf) if leaf.physical.start == text.physical.end && end != 0 => {
                    text.physical.end = leaf.physical.end;
                }
                _ => break,
            }
        }
        text
    }

    /// The leaf of an address, if it is text in the OS's memory.
    fn text_at(&self, address: u64, host: &impl Host) -> Option<Found> {
        let tables = PageTables::of_satp(self.csrs.satp)?;
        let leaf = tables.mapping(address, |at| load_word(at, host))?;
        let is_text = leaf.entry & (FLAGS | OTHERS) == FLAGS;
        let physical = PhysRange::new(leaf.start, leaf.bytes);
        let is_memory =
            || host.is_memory(physical.start) && host.is_memory(physical.end - PAGE_BYTES);
        (is_text && is_memory()).then(|| Found {
            start: address & !(leaf.bytes - 1),
            physical,
        })
    }
}
