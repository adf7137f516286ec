use core::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use thiserror::Error;

use crate::page::{PAGE_BYTES, PAGE_WORDS, Page};
use crate::to_usize;

/// How many separate ranges OS memory may have.
pub const MAX_RANGES: usize = 16;

/// A range of physical addresses, `start` included, `end` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysRange {
    /// First address.
    pub start: u64,
    /// First address behind the range.
    pub end: u64,
}

impl PhysRange {
    /// The range of `length` bytes from `start`; cut off at the top of the
    /// address space.
    #[must_use]
    pub fn new(start: u64, length: u64) -> Self {
        PhysRange {
            start,
            end: start.saturating_add(length),
        }
    }

    /// Bytes in the range.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether `address` lies in the range.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// Whether the two ranges share an address.
    #[must_use]
    pub fn overlaps(&self, other: &PhysRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// Why a list of ranges is no OS memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OsMemoryError {
    /// More ranges than [`MAX_RANGES`].
    #[error("more than {MAX_RANGES} separate memory ranges")]
    TooManyRanges,
    /// Two ranges of the machine's description overlap.
    #[error("memory ranges overlap at {0:#x}")]
    Overlap(u64),
    /// Nothing is left for the OS.
    #[error("no memory is left for the OS")]
    Empty,
}

/// The memory that belongs to the OS: what a sleep saves and a wake restores.
///
/// Pages are numbered from 0 in ascending order of address, holes left out;
/// that number, the *index*, is what a page map speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsMemory {
    ranges: ArrayVec<PhysRange, MAX_RANGES>,
}

/// The address of a page that is known to be OS memory.
///
/// Only [`OsMemory`] makes one, so holding it is the proof that DMA to or from
/// it cannot touch the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OsPage(pub(crate) u64);

impl OsPage {
    /// The page's physical address.
    #[must_use]
    pub fn address(self) -> u64 {
        self.0
    }
}

impl OsMemory {
    /// OS memory: what `memory` lists, less what `reserved` lists. Ranges may
    /// come in any order and are cut to whole pages (memory inward, reserved
    /// outward).
    ///
    /// # Errors
    ///
    /// Overlapping memory ranges, more than [`MAX_RANGES`] of them, or nothing
    /// left.
    ///
    /// # Safety
    ///
    /// What is left must be memory, mapped at its physical address, that this
    /// program uses for nothing else for as long as the value or a copy of it
    /// is used: [`OsMemory::page`] reads it, [`OsMemory::zero`] and the DMA of
    /// a medium write it.
    pub unsafe fn new(memory: &[PhysRange], reserved: &[PhysRange]) -> Result<Self, OsMemoryError> {
        let mut ranges = ArrayVec::new();
        for range in memory {
            push(&mut ranges, shrink_to_pages(*range))?;
        }
        ranges.sort_unstable_by_key(|range: &PhysRange| range.start);
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].overlaps(&pair[1])) {
            return Err(OsMemoryError::Overlap(pair[1].start));
        }
        join_neighbours(&mut ranges);
        for hole in reserved.iter().filter(|hole| hole.length() > 0) {
            ranges = without(&ranges, grow_to_pages(*hole))?;
        }
        if ranges.is_empty() {
            return Err(OsMemoryError::Empty);
        }
        Ok(OsMemory { ranges })
    }

    /// The ranges, ascending and disjoint, each of whole pages.
    #[must_use]
    pub fn ranges(&self) -> &[PhysRange] {
        &self.ranges
    }

    /// Pages in all ranges together.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.length() / PAGE_BYTES)
            .sum()
    }

    /// Whether the `length` bytes from `address` are OS memory throughout.
    #[must_use]
    pub fn contains(&self, address: u64, length: u64) -> bool {
        address.checked_add(length).is_some_and(|end| {
            self.ranges
                .iter()
                .any(|range| range.start <= address && end <= range.end)
        })
    }

    /// The page with the given index; `None` from [`OsMemory::pages`] on.
    #[must_use]
    pub fn at(&self, index: u64) -> Option<OsPage> {
        let mut left = index;
        for range in &self.ranges {
            let pages = range.length() / PAGE_BYTES;
            if left < pages {
                return Some(OsPage(range.start + left * PAGE_BYTES));
            }
            left -= pages;
        }
        None
    }

    /// The page that holds the byte at `address`; `None` when that is not OS
    /// memory.
    #[must_use]
    pub fn page_at(&self, address: u64) -> Option<OsPage> {
        self.contains(address, 1)
            .then_some(OsPage(address / PAGE_BYTES * PAGE_BYTES))
    }

    /// The index of a page.
    ///
    /// # Panics
    ///
    /// When the page is another memory's.
    #[must_use]
    pub fn index_of(&self, page: OsPage) -> u64 {
        let mut first = 0;
        for range in &self.ranges {
            if range.contains(page.address()) {
                return first + (page.address() - range.start) / PAGE_BYTES;
            }
            first += range.length() / PAGE_BYTES;
        }
        panic!("page {:#x} is another memory's", page.address());
    }

    /// All pages with their indices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, OsPage)> + '_ {
        let addresses = self.ranges.iter().flat_map(|range| {
            (0..range.length() / PAGE_BYTES).map(|page| range.start + page * PAGE_BYTES)
        });
        (0..).zip(addresses.map(OsPage))
    }

    /// All pages: those from that of `address` on, ascending, and behind them those
    /// below it.
    pub fn iter_from(&self, address: u64) -> impl Iterator<Item = OsPage> + '_ {
        let split = address / PAGE_BYTES * PAGE_BYTES;
        let above = self.ranges.iter().map(move |range| PhysRange {
            start: range.start.max(split),
            end: range.end,
        });
        let below = self.ranges.iter().map(move |range| PhysRange {
            start: range.start,
            end: range.end.min(split),
        });
        above.chain(below).flat_map(|range| {
            let pages = range.length() / PAGE_BYTES;
            (0..pages).map(move |page| OsPage(range.start + page * PAGE_BYTES))
        })
    }

    /// What the page holds now.
    ///
    /// The caller sees to it that no DMA into the page is under way.
    #[must_use]
    #[inline]
    pub fn page(&self, page: OsPage) -> &Page {
        let pointer = core::ptr::with_exposed_provenance::<Page>(to_usize(page.address()));
        // SAFETY: an `OsPage` is a page-aligned address in the memory that the
        // maker of an `OsMemory` vouched for; any bit pattern is a `Page`.
        unsafe { &*pointer }
    }

    /// The page as words that several harts may read and write.
    ///
    /// The caller sees to it that no DMA into the page is under way, and that
    /// nobody holds what [`OsMemory::page`] gave while it is written.
    #[must_use]
    #[inline]
    pub fn words(&self, page: OsPage) -> &PageWords {
        let pointer = core::ptr::with_exposed_provenance::<PageWords>(to_usize(page.address()));
        // SAFETY: as in `page`; atomics may be written through shared
        // references, and have the layout of their integers.
        unsafe { &*pointer }
    }

    /// Fills the page with zeros; a page that is zero already is only read,
    /// which is cheaper wherever reading does not allocate memory. Several
    /// harts may do so to several pages, under the terms of
    /// [`OsMemory::words`].
    #[inline]
    pub fn zero(&self, page: OsPage) {
        if !self.page(page).is_zero() {
            for word in self.words(page) {
                word.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// A page as words that several harts may read and write.
pub type PageWords = [AtomicU64; PAGE_WORDS];

/// Makes one range of two where one ends and the next begins, so that memory
/// that is whole is seen as such.
fn join_neighbours(ranges: &mut ArrayVec<PhysRange, MAX_RANGES>) {
    let mut joined = ArrayVec::<PhysRange, MAX_RANGES>::new();
    for range in ranges.drain(..) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    *ranges = joined;
}

fn push(
    ranges: &mut ArrayVec<PhysRange, MAX_RANGES>,
    range: PhysRange,
) -> Result<(), OsMemoryError> {
    if range.length() == 0 {
        return Ok(());
    }
    ranges
        .try_push(range)
        .map_err(|_| OsMemoryError::TooManyRanges)
}

fn without(
    ranges: &[PhysRange],
    hole: PhysRange,
) -> Result<ArrayVec<PhysRange, MAX_RANGES>, OsMemoryError> {
    let mut left = ArrayVec::new();
    for range in ranges {
        if range.overlaps(&hole) {
            push(
                &mut left,
                PhysRange {
                    start: range.start,
                    end: hole.start.max(range.start),
                },
            )?;
            push(
                &mut left,
                PhysRange {
                    start: hole.end.min(range.end),
                    end: range.end,
                },
            )?;
        } else {
            push(&mut left, *range)?;
        }
    }
    Ok(left)
}

fn shrink_to_pages(range: PhysRange) -> PhysRange {
    PhysRange {
        start: range
            .start
            .checked_next_multiple_of(PAGE_BYTES)
            .unwrap_or(u64::MAX),
        end: range.end / PAGE_BYTES * PAGE_BYTES,
    }
}

fn grow_to_pages(range: PhysRange) -> PhysRange {
    PhysRange {
        start: range.start / PAGE_BYTES * PAGE_BYTES,
        end: range
            .end
            .checked_next_multiple_of(PAGE_BYTES)
            .unwrap_or(u64::MAX),
    }
}
