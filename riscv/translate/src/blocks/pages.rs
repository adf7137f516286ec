//! The pages of the OS that have translated code. Blocks are dropped when their instructions change, or
//! their pages.

use poorwill_memory::PAGE_BYTES;

use super::cache::{Blocks, PagesAre};
use super::leaf::{self, CodeAt};
use super::region::{Block, CodePage, Index, PAGE_HASH, RECENT_PAGES};
use super::writer::{BREAK, Full};
use crate::host::Host;

impl CodePage {
    /// Notes what the OS's tables say of the page.
    fn note(&mut self, at: CodeAt) {
        self.shift = at.shift;
        self.unwatched = at.is_unwatched.into();
        self.goes_on = at.goes_on.into();
    }
}

impl Blocks<'_> {
    fn page_head(physical: u64) -> usize {
        (physical / PAGE_BYTES) as usize % PAGE_HASH
    }

    /// Numbers of the pages with code at a physical address.
    pub(super) fn pages_of(&self, physical: u64) -> impl Iterator<Item = usize> {
        let first = Self::page_head(physical);
        let entries = (0..PAGE_HASH).map(move |step| (first + step) % PAGE_HASH);
        let entries = entries.map(|entry| self.index.page_hash[entry]);
        let numbers = entries.map_while(|entry| usize::from(entry).checked_sub(1));
        numbers.filter(move |number| self.index.pages[*number].physical == physical)
    }

    /// The number of a virtual page with code at a physical address.
    pub(super) fn number_of(&self, page: u64, physical: u64) -> Option<usize> {
        let mut numbers = self.pages_of(physical);
        numbers.find(|number| self.index.pages[*number].page == page)
    }

    /// Returns whether a physical page has translated code.
    pub(super) fn has_code(&self, physical: u64) -> bool {
        self.pages_of(physical).next().is_some()
    }

    /// The place of a page in the list of recent ones.
    fn recent(page: u64) -> usize {
        (page / PAGE_BYTES) as usize % RECENT_PAGES
    }

    /// The number of a page that has had a new block lately.
    pub(super) fn recent_page(&self, page: u64) -> Option<usize> {
        let number = usize::from(self.recent_pages[Self::recent(page)]).checked_sub(1)?;
        let known = &self.index.pages[number];
        (known.page == page && known.first != 0).then_some(number)
    }

    /// Where the code at an address is, if its page has blocks. Fences drop pages that have moved.
    pub(super) fn recent_place(&self, pc: u64) -> Option<CodeAt> {
        let offset = pc % PAGE_BYTES;
        let number = self.recent_page(pc - offset)?;
        let page = &self.index.pages[number];
        Some(CodeAt {
            physical: page.physical + offset,
            shift: page.shift,
            is_unwatched: page.unwatched != 0,
            goes_on: page.goes_on != 0,
        })
    }

    /// The number of the page with the code at an address, which may be new.
    pub(super) fn page_with(&mut self, pc: u64, at: CodeAt) -> Result<usize, Full> {
        let offset = pc % PAGE_BYTES;
        let (page, physical) = (pc - offset, at.physical - offset);
        if let Some(number) = self.recent_page(page)
            && self.index.pages[number].physical == physical
        {
            return Ok(number);
        }
        if let Some(number) = self.number_of(page, physical) {
            self.index.pages[number].note(at);
            self.in_pages.note(page, at.shift);
            self.recent_pages[Self::recent(page)] = number as u16 + 1;
            return Ok(number);
        }
        let number = self.pages;
        let new = self.index.pages.get_mut(number).ok_or(Full)?;
        *new = CodePage {
            page,
            physical,
            first: 0,
            shift: at.shift,
            unwatched: at.is_unwatched.into(),
            goes_on: at.goes_on.into(),
            crossed: 0,
            entered: 0,
        };
        self.pages += 1;
        self.recent_pages[Self::recent(page)] = number as u16 + 1;
        self.in_pages.note(page, at.shift);
        let mut entry = Self::page_head(physical);
        while self.index.page_hash[entry] != 0 {
            entry = (entry + 1) % PAGE_HASH;
        }
        self.index.page_hash[entry] = number as u16 + 1;
        // From now on, its stores are watched. Those to the text are closed already.
        if !self.text.has(physical) {
            self.forget_stores();
        }
        Ok(number)
    }

    /// Notes that a block of a page ends in the next one.
    pub(super) fn enter_next(&mut self, number: usize) -> Result<(), Full> {
        let CodePage {
            page,
            physical,
            shift,
            ..
        } = self.index.pages[number];
        let (page, physical) = (page + PAGE_BYTES, physical + PAGE_BYTES);
        let next = match self.number_of(page, physical) {
            Some(next) => next,
            None => {
                let at = CodeAt {
                    physical,
                    shift,
                    is_unwatched: true,
                    goes_on: false,
                };
                self.page_with(page, at)?
            }
        };
        self.index.pages[number].crossed = 1;
        self.index.pages[next].entered = 1;
        Ok(())
    }

    /// Drops a block: jumps to it come back to machine mode.
    pub(super) fn drop_block(&mut self, number: usize) {
        let block = &mut self.index.blocks[number];
        block.live = 0;
        self.region.words[block.word as usize] = BREAK;
        self.has_changed = true;
    }

    /// Drops the live blocks of a page that are meant.
    pub(super) fn drop_of_page(&mut self, page: usize, is_meant: impl Fn(&Index, &Block) -> bool) {
        let mut next = self.index.pages[page].first;
        while let Some(number) = usize::from(next).checked_sub(1) {
            let block = &self.index.blocks[number];
            next = block.next_of_page;
            if block.live != 0 && is_meant(self.index, block) {
                self.drop_block(number);
            }
        }
    }

    /// Returns whether all pages with blocks are there.
    pub(super) fn has_pages(&self, mut is_there: impl FnMut(u64) -> bool) -> bool {
        let pages = &self.index.pages[..self.pages];
        pages
            .iter()
            .all(|page| page.first == 0 || is_there(page.page))
    }

    /// Drops the blocks whose page is no longer where it was. `address`: of the leaf of one address,
    /// or of all. `code_at`: a page's place now.
    pub(super) fn check_pages(
        &mut self,
        address: Option<u64>,
        mut code_at: impl FnMut(u64) -> Option<CodeAt>,
    ) {
        if address.is_some_and(|address| !self.in_pages.may_have(address)) {
            return;
        }
        for number in 0..self.pages {
            let CodePage {
                page,
                physical,
                first,
                shift,
                crossed,
                ..
            } = self.index.pages[number];
            let is_meant = address.is_none_or(|address| leaf::has(page, shift, address));
            if first == 0 || !is_meant {
                continue;
            }
            let is_its = |at: &CodeAt| at.physical == physical && (at.goes_on || crossed == 0);
            match code_at(page).filter(is_its) {
                Some(at) => {
                    self.in_pages.note(page, at.shift);
                    self.index.pages[number].note(at);
                }
                None => {
                    self.drop_of_page(number, |_, _| true);
                    self.index.pages[number].first = 0;
                    self.index.pages[number].crossed = 0;
                }
            }
        }
    }

    /// Begins a lending: drops the blocks whose instructions have changed since the last one. Their
    /// pages are compared when the OS translates addresses.
    pub fn begin(&mut self, host: &impl Host) {
        self.pages_are = PagesAre::Unchecked;
        self.forget_refused();
        self.check_lines(host);
    }

    /// After a fence of instructions: drops blocks whose instructions translated code has changed.
    pub(super) fn check_unwatched(&mut self, host: &impl Host) {
        for number in 0..self.pages {
            let page = &self.index.pages[number];
            let physical = page.physical;
            if page.unwatched != 0 && !self.text.has(physical) {
                self.check_source(physical, host);
            }
        }
    }
}
