//! What pages hold, as far as a save needs to know before it takes them. All harts
//! look, ahead of the lead, which then touches few pages itself: in a large machine
//! with little in use most of a save is looking. Of a plain image's pages they take
//! the hashes in the same go, as the first touch of a page costs most.

use core::sync::atomic::{AtomicU64, Ordering};

use poorwill_memory::{OsMemory, Page, PageCursor, PageMap, Progression, to_usize};

use crate::crew::Crew;
use crate::page_hash::page_hash;
use crate::stage::Stage;

/// Stretches on their way at once: those of 8 MiB. One is the pages of a word of
/// the page map.
const AHEAD: u64 = 32;
const STRETCH: u64 = 64;

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing but zeros.
    Zeros,
    /// What a [`Progression`] makes, and not zeros.
    Progression,
    /// Anything else, with its hash if hashes are wanted.
    Other { hash: u64 },
}

impl Holds {
    fn of(page: &Page, hashed: bool) -> Self {
        if page.is_zero() {
            Holds::Zeros
        } else if Progression::of(page).is_some() {
            Holds::Progression
        } else {
            let hash = hash_if(hashed, page);
            Holds::Other { hash }
        }
    }
}

fn hash_if(hashed: bool, page: &Page) -> u64 {
    if hashed { page_hash(page) } else { 0 }
}

/// A stretch: a bit for each of its pages.
#[derive(Debug)]
struct Entry {
    stage: Stage,
    /// Index of the first page, a multiple of [`STRETCH`].
    first: AtomicU64,
    /// Pages to be looked at.
    wanted: AtomicU64,
    /// Those that hold [`Holds::Zeros`].
    zeros: AtomicU64,
    /// Those that hold [`Holds::Progression`].
    progressions: AtomicU64,
    /// The hashes of the others.
    hashes: [AtomicU64; to_usize(STRETCH)],
}

impl Entry {
    fn new() -> Self {
        Entry {
            stage: Stage::new(),
            first: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            zeros: AtomicU64::new(0),
            progressions: AtomicU64::new(0),
            hashes: [const { AtomicU64::new(0) }; to_usize(STRETCH)],
        }
    }

    fn look(&self, memory: &OsMemory, hashed: bool) {
        let first = self.first.load(Ordering::Relaxed);
        let mut left = self.wanted.load(Ordering::Relaxed);
        let (mut zeros, mut progressions) = (0, 0);
        let mut cursor = PageCursor::new();
        while left != 0 {
            let (place, bit) = lowest(left);
            left ^= bit;
            // The map has no pages that memory has not.
            let Some(page) = cursor.seek(memory, first + place) else {
                break;
            };
            match Holds::of(memory.page(page), hashed) {
                Holds::Zeros => zeros |= bit,
                Holds::Progression => progressions |= bit,
                Holds::Other { hash } => {
                    self.hashes[to_usize(place)].store(hash, Ordering::Relaxed);
                }
            }
        }
        self.zeros.store(zeros, Ordering::Relaxed);
        self.progressions.store(progressions, Ordering::Relaxed);
        self.stage.finish();
    }
}

/// The place of the lowest bit, and the bit.
fn lowest(word: u64) -> (u64, u64) {
    (u64::from(word.trailing_zeros()), word & word.wrapping_neg())
}

/// The stretches on their way: number `n` in entry `n % AHEAD`.
pub(crate) struct Looks<'c> {
    crew: &'c dyn Crew,
    memory: &'c OsMemory,
    /// Whether hashes are wanted.
    hashed: bool,
    entries: [Entry; to_usize(AHEAD)],
    /// The stretch that the lead wants next: harts take it, and what follows, first.
    oldest: AtomicU64,
}

impl<'c> Looks<'c> {
    pub(crate) fn new(crew: &'c dyn Crew, memory: &'c OsMemory, hashed: bool) -> Self {
        Looks {
            crew,
            memory,
            hashed,
            entries: core::array::from_fn(|_| Entry::new()),
            oldest: AtomicU64::new(0),
        }
    }

    fn entry(&self, number: u64) -> &Entry {
        &self.entries[to_usize(number % AHEAD)]
    }

    /// Looks at a stretch that waits for it, if there is one.
    pub(crate) fn look_at_one(&self) -> bool {
        let oldest = self.oldest.load(Ordering::Relaxed);
        let taken = (oldest..oldest + AHEAD)
            .map(|number| self.entry(number))
            .find(|entry| entry.stage.take());
        let Some(entry) = taken else {
            return false;
        };
        entry.look(self.memory, self.hashed);
        true
    }
}

/// The lead's way through the pages of a map, ascending.
pub(crate) struct Lookout<'l> {
    looks: &'l Looks<'l>,
    /// Where the next stretch to be looked at may begin.
    from: u64,
    /// Stretches given to the harts, and taken back.
    given: u64,
    taken: u64,
    /// What is left of the stretch that was taken back last.
    first: u64,
    left: u64,
    zeros: u64,
    progressions: u64,
}

impl<'l> Lookout<'l> {
    pub(crate) fn new(looks: &'l Looks<'l>) -> Self {
        Lookout {
            looks,
            from: 0,
            given: 0,
            taken: 0,
            first: 0,
            left: 0,
            zeros: 0,
            progressions: 0,
        }
    }

    /// The index of the next page in `map`, and what it holds. Of the map, nothing but
    /// indices that were named may be removed meanwhile.
    pub(crate) fn next(&mut self, map: &PageMap<'_>) -> Option<(u64, Holds)> {
        while self.left == 0 {
            self.give(map);
            if self.taken == self.given {
                return None;
            }
            self.take_back();
        }
        let (place, bit) = lowest(self.left);
        self.left ^= bit;
        let holds = if self.zeros & bit != 0 {
            Holds::Zeros
        } else if self.progressions & bit != 0 {
            Holds::Progression
        } else {
            // Nothing else is put into the entry while something of it is left.
            let hashes = &self.looks.entry(self.taken - 1).hashes;
            let hash = hashes[to_usize(place)].load(Ordering::Relaxed);
            Holds::Other { hash }
        };
        Some((self.first + place, holds))
    }

    /// The hash of a page that is saved though it is a progression, if hashes are
    /// wanted.
    pub(crate) fn hash(&self, page: &Page) -> u64 {
        hash_if(self.looks.hashed, page)
    }

    /// See [`Looks::look_at_one`].
    pub(crate) fn look_at_one(&self) -> bool {
        self.looks.look_at_one()
    }

    /// Gives the harts stretches to look at, many at a time, as each call costs.
    fn give(&mut self, map: &PageMap<'_>) {
        if self.given - self.taken > AHEAD / 2 {
            return;
        }
        let before = self.given;
        while self.given - self.taken < AHEAD
            && let Some(index) = map.next(self.from)
        {
            let entry = self.looks.entry(self.given);
            let first = index / STRETCH * STRETCH;
            entry.first.store(first, Ordering::Relaxed);
            entry.wanted.store(map.word(index), Ordering::Relaxed);
            entry.stage.give();
            self.from = first + STRETCH;
            self.given += 1;
        }
        if self.given != before {
            self.looks.crew.call();
        }
    }

    /// Takes the oldest stretch back, and looks at it or at others while it is not
    /// ready.
    fn take_back(&mut self) {
        let entry = self.looks.entry(self.taken);
        while !entry.stage.is_done() {
            if !self.looks.look_at_one() {
                core::hint::spin_loop();
            }
        }
        self.first = entry.first.load(Ordering::Relaxed);
        self.left = entry.wanted.load(Ordering::Relaxed);
        self.zeros = entry.zeros.load(Ordering::Relaxed);
        self.progressions = entry.progressions.load(Ordering::Relaxed);
        entry.stage.take_back();
        self.taken += 1;
        self.looks.oldest.store(self.taken, Ordering::Relaxed);
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
    use crate::crew::Alone;

    /// Every third page is zero, every fifth in no set; some others are progressions.
    #[test]
    fn every_page_is_named_once_with_what_it_holds() {
        const PAGES: u64 = 3000;
        let wanted = |index: u64| !index.is_multiple_of(5) && !(700..1500).contains(&index);
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
            1 => Holds::Progression,
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
        let looks = Looks::new(&Alone, memory.os(), true);
        let named: Vec<_> = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        looks.look_at_one();
                    }
                });
            }
            let mut lookout = Lookout::new(&looks);
            let next = || {
                let named = lookout.next(&map);
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
}
