//! Determines for each page of a save whether it is zero, a strided fill, or neither. All
//! harts scan ahead of the coordinator, because on a large machine with little memory in
//! use scanning takes most of a save. For a plain image they hash the pages in the same
//! pass, because the first access to a page costs most.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering};

use poorwill_memory::{OsMemory, Page, PageMap, page_hash, to_usize};

use super::look_ahead::{LookAhead, ScanCache};
use super::scan_block::{SCAN_BLOCK_PAGES, ScanBlock, Seen, lowest, next_block};
use crate::workers::Workers;

/// The number of blocks handed out at once: 8 MiB of memory.
const AHEAD: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    Zeros,
    /// A [`StridedFill`](poorwill_memory::StridedFill) other than zeros.
    StridedFill,
    /// Other contents, with their hash if hashes are wanted.
    Other {
        hash: u64,
    },
}

fn hash_if(hashed: bool, page: &Page) -> u64 {
    if hashed { page_hash(page) } else { 0 }
}

/// A block, and the hashes of its pages that hold [`Holds::Other`].
#[derive(Debug)]
struct Entry {
    block: ScanBlock,
    hashes: [AtomicU64; to_usize(SCAN_BLOCK_PAGES)],
}

impl Entry {
    const fn new() -> Self {
        Entry {
            block: ScanBlock::new(),
            hashes: [const { AtomicU64::new(0) }; to_usize(SCAN_BLOCK_PAGES)],
        }
    }

    fn look(&self, memory: &OsMemory, hashed: bool) {
        self.block.look(memory, |place, page, _| {
            self.hashes[to_usize(place)].store(hash_if(hashed, page), Ordering::Relaxed);
            ControlFlow::Continue(())
        });
    }
}

/// The blocks in progress: block `n` is in entry `n % AHEAD`.
pub(crate) struct PageScanner<'c> {
    workers: &'c dyn Workers,
    memory: &'c OsMemory,
    hashed: bool,
    entries: [Entry; to_usize(AHEAD)],
    /// The block that the coordinator needs next. Workers take blocks from here on first.
    oldest: AtomicU64,
    look_ahead: LookAhead<'c>,
}

impl<'c> PageScanner<'c> {
    pub(crate) fn new(workers: &'c dyn Workers, memory: &'c OsMemory, hashed: bool) -> Self {
        PageScanner {
            workers,
            memory,
            hashed,
            entries: [const { Entry::new() }; to_usize(AHEAD)],
            oldest: AtomicU64::new(0),
            look_ahead: LookAhead::new(memory),
        }
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[to_usize(number % AHEAD)]
    }

    /// Scans a block that is handed out; false if there is no such block.
    fn look_at_one(&self) -> bool {
        let oldest = self.oldest.load(Ordering::Relaxed);
        let taken = (oldest..oldest + AHEAD)
            .map(|number| self.entry(number))
            .find(|entry| entry.block.take());
        let Some(entry) = taken else {
            return false;
        };
        entry.look(self.memory, self.hashed);
        true
    }

    /// Scans a block that is handed out, near or far ahead; false if there is no such
    /// block.
    pub(crate) fn look_ahead(&self) -> bool {
        self.look_at_one() || self.look_ahead.look_at_one()
    }
}

/// The coordinator's iterator over the pages of a map, in ascending order.
pub(crate) struct ScanCursor<'l> {
    scanner: &'l PageScanner<'l>,
    cache: ScanCache<'l>,
    /// The first page of the next block to hand out.
    from: u64,
    /// The number of blocks handed out, and the number returned.
    given: u64,
    taken: u64,
    /// The pages of the last returned block that `next` has not returned yet.
    first: u64,
    left: u64,
    seen: Seen,
}

impl<'l> ScanCursor<'l> {
    /// `room` is the cache for results from far ahead: one page holds those of 42 MiB.
    pub(crate) fn new(scanner: &'l PageScanner<'l>, room: &'l mut [Page]) -> Self {
        ScanCursor {
            scanner,
            cache: ScanCache::new(&scanner.look_ahead, room),
            from: 0,
            given: 0,
            taken: 0,
            first: 0,
            left: 0,
            seen: Seen::default(),
        }
    }

    /// The index of the next page in `map` and its contents. `None` at the end, or if the
    /// power fails. Between calls the caller may remove only pages that were already
    /// returned.
    pub(crate) fn next(&mut self, map: &PageMap<'_>) -> Option<(u64, Holds)> {
        let (place, bit) = loop {
            if let Some(lowest) = lowest(self.left) {
                break lowest;
            }
            self.give(map);
            if self.taken == self.given {
                return None;
            }
            self.take_back();
        };
        self.left ^= bit;
        let holds = if self.seen.zeros & bit != 0 {
            Holds::Zeros
        } else if self.seen.strided_fills & bit != 0 {
            Holds::StridedFill
        } else {
            // The entry is not reused until all its pages are returned.
            let hashes = &self.scanner.entry(self.taken - 1).hashes;
            let hash = hashes[to_usize(place)].load(Ordering::Relaxed);
            Holds::Other { hash }
        };
        Some((self.first + place, holds))
    }

    /// The hash of a strided fill that must be saved, if hashes are wanted.
    pub(crate) fn hash(&self, page: &Page) -> u64 {
        hash_if(self.scanner.hashed, page)
    }

    /// See [`PageScanner::look_ahead`].
    pub(crate) fn look_ahead(&self) -> bool {
        self.scanner.look_ahead()
    }

    /// Hands out many blocks at a time, because each wake of the workers is expensive.
    fn give(&mut self, map: &PageMap<'_>) {
        if self.given - self.taken > AHEAD / 2 {
            return;
        }
        let before = self.given;
        while self.given - self.taken < AHEAD
            && let Some(first) = self.seek(map)
        {
            let entry = self.scanner.entry(self.given);
            entry.block.give(map, first, self.cache.of(first));
            self.given += 1;
        }
        if self.given != before {
            self.cache.go_on(map, self.from);
            self.scanner.workers.call();
        }
    }

    /// The first page of the next block to hand out; `None` at the end, or if the power
    /// fails.
    fn seek(&mut self, map: &PageMap<'_>) -> Option<u64> {
        while self.from < map.pages() {
            let block = next_block(map, &mut self.from);
            if block.is_some() || self.scanner.workers.go_on().is_err() {
                return block;
            }
        }
        None
    }

    /// Takes back the oldest block. Scans other blocks while it waits.
    fn take_back(&mut self) {
        let block = &self.scanner.entry(self.taken).block;
        while !block.is_done() {
            if !self.scanner.look_at_one() {
                core::hint::spin_loop();
            }
        }
        self.first = block.first();
        self.left = block.wanted();
        self.seen = block.seen();
        block.take_back();
        self.taken += 1;
        self.scanner.oldest.store(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::vec;
    use std::vec::Vec;

    use poorwill_memory::Page;
    use poorwill_memory::fake::FakeMemory;

    use super::*;
    use crate::scan::scan_block::PASSED;
    use crate::workers::{NoWorkers, PowerFails};

    /// Every third page is zero, every fifth in no set; some others are strided fills.
    #[test]
    fn every_page_is_named_once_with_what_it_holds() {
        const PAGES: u64 = 3000;
        let wanted =
            |index: u64| !index.is_multiple_of(5) && !(700..700 + 3 * PASSED).contains(&index);
        let filled = |index: u64| {
            let mut page = Page::ZERO;
            match index % 3 {
                0 => {}
                1 => page.0.fill(index),
                _ => page.0[511] = index,
            }
            page
        };
        let holds = |index: u64| match index % 3 {
            0 => Holds::Zeros,
            1 => Holds::StridedFill,
            _ => Holds::Other {
                hash: page_hash(&filled(index)),
            },
        };
        let mut memory = FakeMemory::new(&[1000, PAGES - 1000]);
        (0..PAGES).for_each(|index| memory.set(index, &filled(index)));
        let mut room = vec![Page::ZERO; 1];
        let mut map = PageMap::new(&mut room, PAGES).unwrap();
        (0..PAGES)
            .filter(|index| wanted(*index))
            .for_each(|index| map.insert(index));
        let scanner = PageScanner::new(&NoWorkers, memory.os(), true);
        let mut cache = vec![Page([!0; 512]); 1];
        let named: Vec<_> = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        scanner.look_ahead();
                    }
                });
            }
            let mut scan = ScanCursor::new(&scanner, &mut cache);
            let next = || {
                let named = scan.next(&map);
                // What was named may go, and does, at once.
                named.inspect(|(index, _)| map.remove(*index))
            };
            core::iter::from_fn(next).collect()
        });
        let all = (0..PAGES)
            .filter(|index| wanted(*index))
            .map(|index| (index, holds(index)));
        assert!(named.into_iter().eq(all));
    }

    /// Harts whose power fails.
    struct Fails;

    impl Workers for Fails {
        fn run(&self, _coordinate: &mut dyn FnMut(), _work: &(dyn Fn() + Sync)) {}

        fn go_on(&self) -> Result<(), PowerFails> {
            Err(PowerFails)
        }
    }

    #[test]
    fn a_long_way_without_pages_ends_when_the_power_fails() {
        let mut memory = FakeMemory::new(&[2 * PASSED + 64]);
        let mut pages = vec![Page::ZERO; 1];
        for (wanted, workers, is_found) in [
            (PASSED - 1, &Fails as &dyn Workers, true),
            (2 * PASSED, &Fails, false),
            (2 * PASSED, &NoWorkers, true),
        ] {
            let mut map = PageMap::new(&mut pages, 2 * PASSED + 64).unwrap();
            map.insert(wanted);
            let scanner = PageScanner::new(workers, memory.os(), true);
            let found = ScanCursor::new(&scanner, &mut []).next(&map);
            assert_eq!(found.is_some(), is_found);
        }
    }
}
