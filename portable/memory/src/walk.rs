use crate::os_memory::{OsMemory, OsPage};
use crate::page::PAGE_BYTES;
use crate::page_map::Indices;

/// A cursor that turns ascending indices into pages at a constant cost each;
/// [`OsMemory::at`] searches from the beginning every time.
///
/// It borrows nothing, so that memory can be written between two steps.
#[derive(Clone, Debug, Default)]
pub struct PageCursor {
    /// Number of the current range.
    range: usize,
    /// Index of that range's first page.
    first: u64,
}

impl PageCursor {
    /// A cursor before the first page.
    #[must_use]
    pub fn new() -> Self {
        PageCursor::default()
    }

    /// The page with the given index, which must not be less than the one
    /// before; `None` beyond the end.
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

/// Walks the pages that [`Indices`] names, ascending. It borrows the map but
/// not the memory; a clone goes on from the same place.
#[derive(Clone, Debug)]
pub struct PageWalk<'m> {
    indices: Indices<'m>,
    cursor: PageCursor,
}

impl<'m> PageWalk<'m> {
    /// A walk over `indices`, none of which has been taken.
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

    /// The next page; `None` at the end, or when `memory` ends before the map.
    #[inline]
    pub fn next(&mut self, memory: &OsMemory) -> Option<OsPage> {
        self.next_indexed(memory).map(|(_, page)| page)
    }

    /// The same, with its index.
    #[inline]
    pub fn next_indexed(&mut self, memory: &OsMemory) -> Option<(u64, OsPage)> {
        let index = self.indices.next()?;
        Some((index, self.cursor.seek(memory, index)?))
    }
}
