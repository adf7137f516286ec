//! What is known of the OS's memory.

use core::cell::Cell;

use poorwill_memory::{PAGE_BYTES, PhysRange};

/// Parts of memory that were found to be the OS's, by their hash; odd places are free. They stay so during a
/// lending.
#[derive(Debug)]
pub struct KnownMemory {
    /// Ranges of large parts: the start and the bytes of each.
    ranges: [[Cell<u64>; 2]; KnownMemory::RANGES],
    /// Large parts, all of whose pages are the OS's memory.
    large: [Cell<u64>; KnownMemory::LARGE],
    /// Pages elsewhere.
    pages: [Cell<u64>; KnownMemory::PAGES],
}

impl KnownMemory {
    const RANGES: usize = 2;
    const LARGE_BYTES: u64 = 2 << 20;
    /// Powers of two.
    const LARGE: usize = 256;
    const PAGES: usize = 16;

    /// Nothing is known.
    #[must_use]
    pub fn new() -> Self {
        KnownMemory {
            ranges: [const { [const { Cell::new(0) }; 2] }; Self::RANGES],
            large: [const { Cell::new(1) }; Self::LARGE],
            pages: [const { Cell::new(1) }; Self::PAGES],
        }
    }

    /// Returns whether a page is the OS's memory. `is_whole` tells that of a range's start and bytes.
    #[inline(always)]
    pub fn has(&self, page: u64, is_whole: impl Fn(u64, u64) -> bool) -> bool {
        let is_in = |[start, bytes]: &[Cell<u64>; 2]| page.wrapping_sub(start.get()) < bytes.get();
        self.ranges.iter().any(is_in) || self.find(page, is_whole)
    }

    #[inline(never)]
    fn find(&self, page: u64, is_whole: impl Fn(u64, u64) -> bool) -> bool {
        let start = page & !(Self::LARGE_BYTES - 1);
        let large = &self.large[(start / Self::LARGE_BYTES) as usize % Self::LARGE];
        if large.get() == start {
            return true;
        }
        let known = &self.pages[(page / PAGE_BYTES) as usize % Self::PAGES];
        if known.get() == page {
            return true;
        }
        if is_whole(start, Self::LARGE_BYTES) {
            large.set(start);
            self.extend(start, is_whole);
            return true;
        }
        let is_memory = is_whole(page, PAGE_BYTES);
        if is_memory {
            known.set(page);
        }
        is_memory
    }
}

impl KnownMemory {
    /// Extends the first range that reaches up to a large part with the OS's memory alone between them.
    fn extend(&self, part: u64, is_whole: impl Fn(u64, u64) -> bool) {
        let part = PhysRange::new(part, Self::LARGE_BYTES);
        for [start, bytes] in &self.ranges {
            let is_free = bytes.get() == 0;
            let hull = match is_free {
                true => part,
                false => part.hull(PhysRange::new(start.get(), bytes.get())),
            };
            if is_free || is_whole(hull.start, hull.length()) {
                start.set(hull.start);
                bytes.set(hull.length());
                return;
            }
        }
    }
}

impl Default for KnownMemory {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory from 1 MiB to 5 MiB, of which the large part from 2 to 4 MiB is whole.
    fn is_whole(start: u64, bytes: u64) -> bool {
        start >= 1 << 20 && start + bytes <= 5 << 20
    }

    #[test]
    fn pages_are_those_of_memory_in_any_order() {
        let known = KnownMemory::new();
        for turn in 0..3 {
            for number in 0..2000 {
                let page = number * (7 + turn) % 2000 * PAGE_BYTES;
                assert_eq!(
                    known.has(page, is_whole),
                    is_whole(page, PAGE_BYTES),
                    "{page:#x}"
                );
            }
        }
    }

    #[test]
    fn memory_with_a_hole_is_known_in_two_ranges() {
        const LARGE: u64 = KnownMemory::LARGE_BYTES;
        let known = KnownMemory::new();
        let asked = Cell::new(0);
        let with_hole = |start: u64, bytes: u64| {
            asked.set(asked.get() + 1);
            let end = start + bytes;
            end <= 20 * LARGE || start >= 21 * LARGE && end <= 40 * LARGE
        };
        for part in [0, 39, 19, 21] {
            assert!(known.has(part * LARGE, with_hole));
        }
        asked.set(0);
        for page in (0..40 * LARGE).step_by(PAGE_BYTES as usize) {
            let is_memory = page / LARGE != 20;
            assert_eq!(known.has(page, with_hole), is_memory, "{page:#x}");
        }
        assert_eq!(
            asked.get(),
            2 * LARGE / PAGE_BYTES,
            "the hole's pages alone"
        );
    }

    #[test]
    fn a_large_part_is_asked_for_once() {
        let known = KnownMemory::new();
        let asked = Cell::new(0);
        let count = |start, bytes| {
            asked.set(asked.get() + 1);
            is_whole(start, bytes)
        };
        let pages = (2 << 20..4 << 20).step_by(PAGE_BYTES as usize);
        assert!(pages.into_iter().all(|page| known.has(page, count)));
        assert_eq!(asked.get(), 1);
    }
}
