use crate::os_memory::{OsMemory, OsPage};
use crate::page::PAGE_BYTES;
use crate::page_map::Indices;

/// Converts ascending indices to pages, each at a constant cost. [`OsMemory::at`] searches from the
/// start each time.
///
/// It borrows nothing, so that memory can be written between two calls.
#[derive(Clone, Debug, Default)]
pub struct PageCursor {
    range: usize,
    /// The index of that range's first page.
    first: u64,
}

impl PageCursor {
    /// A cursor before the first page.
    #[must_use]
    pub fn new() -> Self {
        PageCursor::default()
    }

    /// The page with this index, which must not be less than the previous one; `None`
    /// past the end.
    #[inline]
    pub fn seek(&mut self, memory: &OsMemory, index: u64) -> Option<OsPage> {
        loop {
            let range = memory.ranges().get(self.range)?;
            let offset = index.checked_sub(self.first)?;
            let pages = range.length() / PAGE_BYTES;
            if offset < pages {
                return Some(OsPage(range.start + offset * PAGE_BYTES));
            }
            self.range += 1;
            self.first += pages;
        }
    }
}

/// Iterates over the pages of [`Indices`]. It borrows the map but not the memory; a clone
/// continues from the same index.
#[derive(Clone, Debug)]
pub struct PageWalk<'m> {
    indices: Indices<'m>,
    cursor: PageCursor,
}

impl<'m> PageWalk<'m> {
    /// A walk over all `indices`.
    #[must_use]
    pub fn new(indices: Indices<'m>) -> Self {
        PageWalk {
            indices,
            cursor: PageCursor::new(),
        }
    }

    /// The index of the next page, without advancing.
    #[must_use]
    pub fn peek(&self) -> Option<u64> {
        self.indices.clone().next()
    }

    /// Skips all pages below `index`.
    pub fn skip_to(&mut self, index: u64) {
        self.indices.skip_to(index);
    }

    /// The next page; `None` at the end, or if `memory` ends before the map.
    #[inline]
    pub fn next(&mut self, memory: &OsMemory) -> Option<OsPage> {
        self.next_indexed(memory).map(|(_, page)| page)
    }

    /// The next page with its index.
    #[inline]
    pub fn next_indexed(&mut self, memory: &OsMemory) -> Option<(u64, OsPage)> {
        let index = self.indices.next()?;
        Some((index, self.cursor.seek(memory, index)?))
    }
}
