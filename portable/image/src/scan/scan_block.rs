//! Blocks of memory that worker harts scan for the coordinator.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering};

use poorwill_memory::{OsMemory, Page, PageCursor, PageMap, StridedFill};

use crate::work_state::WorkState;

/// The number of pages in a block: the bits of a word of the page map.
pub(crate) const SCAN_BLOCK_PAGES: u64 = 64;

/// The number of pages that a search covers before it returns: 4 GiB, 16,384 words of the map.
/// Tests have less memory.
pub(crate) const PASSED: u64 = if cfg!(test) { 1 << 9 } else { 1 << 20 };

/// The first page of the next block, at `from` or after it, with pages in the map. Moves
/// `from` past that block. `None`: no such block in the next [`PASSED`] pages; `from`
/// then moves past these.
pub(crate) fn next_block(map: &PageMap<'_>, from: &mut u64) -> Option<u64> {
    let end = from.saturating_add(PASSED);
    let index = map.next_in(*from..end);
    let first = index.map(|index| index / SCAN_BLOCK_PAGES * SCAN_BLOCK_PAGES);
    *from = first.map_or(end, |first| first + SCAN_BLOCK_PAGES);
    first
}

/// The result of a scan: one bit for each page of the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Pages of zeros.
    pub(crate) zeros: u64,
    /// Pages with a [`StridedFill`] other than zeros.
    pub(crate) strided_fills: u64,
}

impl Seen {
    /// The pages that need not be saved.
    pub(crate) fn pages(self) -> u64 {
        self.zeros | self.strided_fills
    }

    /// Sets the bit of `page` and returns true if the page is zero or a strided fill.
    fn note(&mut self, bit: u64, page: &Page) -> bool {
        if page.is_zero() {
            self.zeros |= bit;
        } else if StridedFill::of(page).is_some() {
            self.strided_fills |= bit;
        } else {
            return false;
        }
        true
    }
}

/// A block that the coordinator passes to the hart that scans it.
#[derive(Debug)]
pub(crate) struct ScanBlock {
    state: WorkState,
    /// The index of the first page, a multiple of [`SCAN_BLOCK_PAGES`].
    first: AtomicU64,
    wanted: AtomicU64,
    zeros: AtomicU64,
    strided_fills: AtomicU64,
}

impl ScanBlock {
    pub(crate) const fn new() -> Self {
        ScanBlock {
            state: WorkState::new(),
            first: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            zeros: AtomicU64::new(0),
            strided_fills: AtomicU64::new(0),
        }
    }

    /// Hands out the block of `map` from page `first`. `seen` has the results that are known
    /// already.
    pub(crate) fn give(&self, map: &PageMap<'_>, first: u64, seen: Seen) {
        self.first.store(first, Ordering::Relaxed);
        self.wanted.store(map.word(first), Ordering::Relaxed);
        self.store(seen);
        self.state.give();
    }

    /// Claims the block for a scan; false if it was not handed out, or another hart has
    /// it.
    pub(crate) fn take(&self) -> bool {
        self.state.take()
    }

    /// Scans the pages without a known result. Calls `other` for each page that is neither zero nor
    /// a strided fill: with its index in the block, its contents and the result so far. `other`
    /// decides whether the scan continues.
    pub(crate) fn look(
        &self,
        memory: &OsMemory,
        mut other: impl FnMut(u64, &Page, Seen) -> ControlFlow<()>,
    ) {
        let first = self.first();
        let mut seen = self.seen();
        let mut left = self.wanted() & !seen.pages();
        let mut cursor = PageCursor::new();
        while let Some((place, bit)) = lowest(left) {
            left ^= bit;
            // The map contains no page past the end of memory, so this does not happen.
            let Some(page) = cursor.seek(memory, first + place) else {
                break;
            };
            let page = memory.page(page);
            if !seen.note(bit, page) && other(place, page, seen).is_break() {
                break;
            }
        }
        self.store(seen);
        self.state.finish();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state.is_done()
    }

    /// Whether the coordinator may hand out the block.
    pub(crate) fn is_free(&self) -> bool {
        self.state.is_coordinators()
    }

    pub(crate) fn take_back(&self) {
        self.state.take_back();
    }

    pub(crate) fn first(&self) -> u64 {
        self.first.load(Ordering::Relaxed)
    }

    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn seen(&self) -> Seen {
        Seen {
            zeros: self.zeros.load(Ordering::Relaxed),
            strided_fills: self.strided_fills.load(Ordering::Relaxed),
        }
    }

    fn store(&self, seen: Seen) {
        self.zeros.store(seen.zeros, Ordering::Relaxed);
        self.strided_fills
            .store(seen.strided_fills, Ordering::Relaxed);
    }
}

/// The index of the lowest set bit, and the bit itself.
pub(crate) fn lowest(word: u64) -> Option<(u64, u64)> {
    (word != 0).then(|| (u64::from(word.trailing_zeros()), word & word.wrapping_neg()))
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use poorwill_memory::fake::FakeMemory;

    use super::*;

    /// Scans pages 64 to 127 of a memory in which page n begins with n; all but
    /// `known` are unknown.
    fn others(known: Seen, ends_at: u64) -> (Vec<u64>, Seen) {
        let mut memory = FakeMemory::new(&[200]);
        for index in 0..200 {
            let mut page = Page::ZERO;
            page.0[0] = index;
            memory.set(index, &page);
        }
        memory.set(70, &Page::ZERO);
        memory.set(80, &Page([80; 512]));
        let mut room = vec![Page::ZERO; 1];
        let mut map = PageMap::new(&mut room, 200).unwrap();
        (64..100).for_each(|index| map.insert(index));
        let block = ScanBlock::new();
        assert!(block.is_free() && !block.take());
        block.give(&map, 64, known);
        assert!(block.take() && !block.take());
        let mut others = Vec::new();
        block.look(memory.os(), |place, page, _| {
            assert_eq!(page.0[0], 64 + place);
            others.push(page.0[0]);
            match page.0[0] == ends_at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(block.is_done() && block.wanted() == (1 << 36) - 1);
        block.take_back();
        assert!(block.is_free());
        (others, block.seen())
    }

    #[test]
    fn every_wanted_page_is_one_thing() {
        let found = Seen {
            zeros: 1 << (70 - 64),
            strided_fills: 1 << (80 - 64),
        };
        let rest = (64..100).filter(|index| ![70, 80].contains(index));
        assert_eq!(others(Seen::default(), 0), (rest.collect(), found));
    }

    #[test]
    fn what_is_known_is_not_looked_at_again() {
        let known = Seen {
            zeros: 0x3f,
            strided_fills: !0 << 8,
        };
        assert_eq!(others(known, 0).0, [71]);
    }

    #[test]
    fn a_look_may_be_ended() {
        let found = Seen {
            zeros: 1 << (70 - 64),
            strided_fills: 0,
        };
        let (named, seen) = others(Seen::default(), 75);
        assert_eq!((named.last(), seen), (Some(&75), found));
    }
}
