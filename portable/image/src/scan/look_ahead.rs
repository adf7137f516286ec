//! Scans blocks far ahead of the coordinator for pages that need not be saved. Idle worker harts do
//! this. Without it the medium would be idle while the coordinator scans a long run of such pages.
//! A large machine with little memory in use has tens of thousands of such pages, in the kernel's
//! tables about free memory.

use core::ops::ControlFlow;

use poorwill_memory::{OsMemory, Page, PageMap, to_usize};

use super::scan_block::{SCAN_BLOCK_PAGES, ScanBlock, Seen, next_block};

/// The most blocks that may wait for a worker.
const WAITING: usize = 64;

/// The scan of a block stops after this number of pages that must be saved. The coordinator reads
/// these pages again for the hash, so a scan of the rest would only read pages twice.
const ENOUGH: u32 = 4;

/// The words of an entry: the index of the block's first page, and its [`Seen`].
const FIND_WORDS: usize = 3;

/// The blocks that worker harts may scan.
pub(crate) struct LookAhead<'c> {
    memory: &'c OsMemory,
    waiting: [ScanBlock; WAITING],
}

impl<'c> LookAhead<'c> {
    pub(crate) fn new(memory: &'c OsMemory) -> Self {
        LookAhead {
            memory,
            waiting: [const { ScanBlock::new() }; WAITING],
        }
    }

    /// Scans a waiting block, if there is one. Returns whether there was one.
    pub(crate) fn look_at_one(&self) -> bool {
        let Some(block) = self.waiting.iter().find(|block| block.take()) else {
            return false;
        };
        let mut others = 0;
        block.look(self.memory, |_, _, seen| {
            others += 1;
            match seen == Seen::default() && others == ENOUGH {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        true
    }
}

/// The coordinator's part: it hands out blocks far ahead and caches the results. A result
/// without room in the cache is dropped, and its block is scanned again later.
pub(crate) struct ScanCache<'l> {
    look_ahead: &'l LookAhead<'l>,
    /// The entries; block number `n` is at `n` modulo their count.
    cache: &'l mut [[u64; FIND_WORDS]],
    /// The first page of the next block to hand out.
    from: u64,
}

impl<'l> ScanCache<'l> {
    /// `room` is the memory of the cache, of any size and with any contents.
    pub(crate) fn new(look_ahead: &'l LookAhead<'l>, room: &'l mut [Page]) -> Self {
        let (cache, _) = Page::words_mut(room).as_chunks_mut();
        cache.fill([0; FIND_WORDS]);
        ScanCache {
            look_ahead,
            cache,
            from: 0,
        }
    }

    /// Collects results and hands out more blocks of `map`. `next` is the page that the
    /// coordinator scans next.
    pub(crate) fn go_on(&mut self, map: &PageMap<'_>, next: u64) {
        if self.cache.is_empty() {
            return;
        }
        self.from = self.from.max(next);
        let look_ahead = self.look_ahead;
        let mut seeks = true;
        for block in &look_ahead.waiting {
            if block.is_done() {
                self.keep(block.first(), block.seen(), next);
                block.take_back();
            }
            if seeks && block.is_free() {
                match next_block(map, &mut self.from) {
                    Some(first) => block.give(map, first, Seen::default()),
                    None => seeks = false,
                }
            }
        }
    }

    /// Caches a result, unless its entry holds a result that is needed earlier.
    fn keep(&mut self, first: u64, seen: Seen, next: u64) {
        let place = self.place(first);
        let find = &mut self.cache[place];
        if first >= next && seen != Seen::default() && (find[0] < next || find[1] | find[2] == 0) {
            *find = [first, seen.zeros, seen.strided_fills];
        }
    }

    /// The cached result of the block with first page `first`.
    pub(crate) fn of(&self, first: u64) -> Seen {
        match self.cache.get(self.place(first)) {
            Some(&[at, zeros, strided_fills]) if at == first => Seen {
                zeros,
                strided_fills,
            },
            _ => Seen::default(),
        }
    }

    fn place(&self, first: u64) -> usize {
        to_usize(first / SCAN_BLOCK_PAGES) % self.cache.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use poorwill_memory::fake::FakeMemory;

    use super::*;

    const PAGES: u64 = 40 * SCAN_BLOCK_PAGES;
    /// Below it pages are saved; from it on a few of them are.
    const TABLES: u64 = 30 * SCAN_BLOCK_PAGES;
    /// Some pages of the tables, at equal distances, are saved.
    const EVERY: u64 = 16;

    fn memory() -> FakeMemory {
        let mut memory = FakeMemory::new(&[PAGES]);
        for index in 0..PAGES {
            let mut page = Page::ZERO;
            if index < TABLES || index.is_multiple_of(EVERY) {
                page.0[7] = index + 1;
            } else if index.is_multiple_of(2) {
                page.0.fill(index);
            }
            memory.set(index, &page);
        }
        memory
    }

    /// What is there to be seen in a block of the tables.
    fn tables(wanted: u64) -> Seen {
        let odd = 0xaaaa_aaaa_aaaa_aaaa;
        let saved = 0x0001_0001_0001_0001;
        Seen {
            zeros: wanted & odd,
            strided_fills: wanted & !odd & !saved,
        }
    }

    /// All that is found from page `next` on, with a cache of this size.
    fn find(next: u64, wanted: u64, room: usize) -> vec::Vec<Seen> {
        let mut memory = memory();
        let mut pages = vec![Page::ZERO; 1];
        let mut map = PageMap::new(&mut pages, PAGES).unwrap();
        (0..PAGES)
            .filter(|index| wanted >> (index % SCAN_BLOCK_PAGES) & 1 == 1)
            .for_each(|index| map.insert(index));
        let look_ahead = LookAhead::new(memory.os());
        let mut room = vec![Page([!0; 512]); room];
        let mut cache = ScanCache::new(&look_ahead, &mut room);
        cache.go_on(&map, next);
        while look_ahead.look_at_one() {}
        cache.go_on(&map, next);
        assert!(!look_ahead.look_at_one(), "all of the map was looked at");
        let firsts = (0..PAGES).step_by(to_usize(SCAN_BLOCK_PAGES));
        firsts.map(|first| cache.of(first)).collect()
    }

    #[test]
    fn what_need_not_be_saved_is_found_and_no_more() {
        for wanted in [!0, 0xffff_0000_ffff_f000] {
            let found = find(0, wanted, 1);
            let nothing = vec![Seen::default(); 30];
            assert_eq!(found, [nothing, vec![tables(wanted); 10]].concat());
        }
    }

    #[test]
    fn what_the_lead_has_come_by_is_not_looked_at() {
        let found = find(TABLES + SCAN_BLOCK_PAGES, !0, 1);
        assert_eq!(found[30], Seen::default());
        assert!(found[31..].iter().all(|seen| *seen == tables(!0)));
    }

    #[test]
    fn without_room_nothing_is_looked_at() {
        assert_eq!(find(0, !0, 0), [Seen::default(); 40]);
    }

    #[test]
    fn what_comes_first_keeps_its_place() {
        let mut memory = memory();
        let look_ahead = LookAhead::new(memory.os());
        let mut room = [Page::ZERO];
        let mut cache = ScanCache::new(&look_ahead, &mut room);
        let count = cache.cache.len() as u64;
        let block = |number| number * SCAN_BLOCK_PAGES;
        let (early, late, last) = (block(5), block(5 + count), block(5 + 2 * count));
        let seen = tables(!0);
        cache.keep(early, seen, 0);
        cache.keep(late, seen, early);
        assert_eq!((cache.of(early), cache.of(late)), (seen, Seen::default()));
        cache.keep(last, seen, early + SCAN_BLOCK_PAGES);
        assert_eq!((cache.of(early), cache.of(last)), (Seen::default(), seen));
    }
}
