//! Looking far ahead, for pages that need not be saved, while harts have nothing else
//! to do: where many of them lie together, a medium would be out of work until they had
//! been looked at. A large machine with little in use has tens of thousands of them, in
//! the kernel's tables about the memory that is free.

use core::ops::ControlFlow;

use poorwill_memory::{OsMemory, Page, PageMap, to_usize};

use super::stretch::{STRETCH, Seen, Stretch};

/// Stretches that wait for a hart.
const WAITING: usize = 64;

/// A stretch that begins with so many pages that are to be saved is left: its pages would
/// be touched twice, now and to be hashed.
const ENOUGH: u32 = 4;

/// Words of a find: the index of the stretch's first page, and what was [`Seen`].
const FIND_WORDS: usize = 3;

/// The stretches that the harts may look at.
pub(crate) struct Scouts<'c> {
    memory: &'c OsMemory,
    waiting: [Stretch; WAITING],
}

impl<'c> Scouts<'c> {
    pub(crate) fn new(memory: &'c OsMemory) -> Self {
        Scouts {
            memory,
            waiting: [const { Stretch::new() }; WAITING],
        }
    }

    /// Looks at a stretch that waits for it, if there is one.
    pub(crate) fn look_at_one(&self) -> bool {
        let Some(stretch) = self.waiting.iter().find(|stretch| stretch.take()) else {
            return false;
        };
        let mut others = 0;
        stretch.look(self.memory, |_, _, seen| {
            others += 1;
            match seen == Seen::default() && others == ENOUGH {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        true
    }
}

/// The lead's part: it sends the harts ahead and keeps what they find. What it has no
/// room for is looked at again in its turn.
pub(crate) struct Finds<'l> {
    scouts: &'l Scouts<'l>,
    /// Finds, each at the number of its stretch modulo their count.
    finds: &'l mut [[u64; FIND_WORDS]],
    /// Where the next stretch for the harts may begin.
    from: u64,
}

impl<'l> Finds<'l> {
    /// `room` may be of any size; what is in it does not matter.
    pub(crate) fn new(scouts: &'l Scouts<'l>, room: &'l mut [Page]) -> Self {
        let (finds, _) = Page::words_mut(room).as_chunks_mut();
        finds.fill([0; FIND_WORDS]);
        Finds {
            scouts,
            finds,
            from: 0,
        }
    }

    /// Takes finds back and sends the harts on: through stretches of `map` from page
    /// `next` on, which is the lead's own next one.
    pub(crate) fn go_on(&mut self, map: &PageMap<'_>, next: u64) {
        if self.finds.is_empty() {
            return;
        }
        self.from = self.from.max(next);
        let scouts = self.scouts;
        for stretch in &scouts.waiting {
            if stretch.is_done() {
                self.keep(stretch.first(), stretch.seen(), next);
                stretch.take_back();
            }
            if stretch.is_free()
                && let Some(index) = map.next(self.from)
            {
                let first = index / STRETCH * STRETCH;
                stretch.give(map, first, Seen::default());
                self.from = first + STRETCH;
            }
        }
    }

    /// Keeps a find, unless in its place is one that is needed before it.
    fn keep(&mut self, first: u64, seen: Seen, next: u64) {
        let place = self.place(first);
        let find = &mut self.finds[place];
        if first >= next && seen != Seen::default() && (find[0] < next || find[1] | find[2] == 0) {
            *find = [first, seen.zeros, seen.strided_fills];
        }
    }

    /// What was found in the stretch that begins with page `first`.
    pub(crate) fn of(&self, first: u64) -> Seen {
        match self.finds.get(self.place(first)) {
            Some(&[at, zeros, strided_fills]) if at == first => Seen {
                zeros,
                strided_fills,
            },
            _ => Seen::default(),
        }
    }

    fn place(&self, first: u64) -> usize {
        to_usize(first / STRETCH) % self.finds.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use poorwill_memory::fake::FakeMemory;

    use super::*;

    const PAGES: u64 = 40 * STRETCH;
    /// Below it pages are saved; from it on a few of them are.
    const TABLES: u64 = 30 * STRETCH;
    /// Every so many pages of the tables are saved.
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

    /// What is there to be seen in a stretch of the tables.
    fn tables(wanted: u64) -> Seen {
        let odd = 0xaaaa_aaaa_aaaa_aaaa;
        let saved = 0x0001_0001_0001_0001;
        Seen {
            zeros: wanted & odd,
            strided_fills: wanted & !odd & !saved,
        }
    }

    /// All that is found from page `next` on, in so much room.
    fn find(next: u64, wanted: u64, room: usize) -> vec::Vec<Seen> {
        let mut memory = memory();
        let mut pages = vec![Page::ZERO; 1];
        let mut map = PageMap::new(&mut pages, PAGES).unwrap();
        (0..PAGES)
            .filter(|index| wanted >> (index % STRETCH) & 1 == 1)
            .for_each(|index| map.insert(index));
        let scouts = Scouts::new(memory.os());
        let mut room = vec![Page([!0; 512]); room];
        let mut finds = Finds::new(&scouts, &mut room);
        finds.go_on(&map, next);
        while scouts.look_at_one() {}
        finds.go_on(&map, next);
        assert!(!scouts.look_at_one(), "all of the map was looked at");
        let firsts = (0..PAGES).step_by(to_usize(STRETCH));
        firsts.map(|first| finds.of(first)).collect()
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
        let found = find(TABLES + STRETCH, !0, 1);
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
        let scouts = Scouts::new(memory.os());
        let mut room = [Page::ZERO];
        let mut finds = Finds::new(&scouts, &mut room);
        let count = finds.finds.len() as u64;
        let stretch = |number| number * STRETCH;
        let (early, late, last) = (stretch(5), stretch(5 + count), stretch(5 + 2 * count));
        let seen = tables(!0);
        finds.keep(early, seen, 0);
        finds.keep(late, seen, early);
        assert_eq!((finds.of(early), finds.of(late)), (seen, Seen::default()));
        finds.keep(last, seen, early + STRETCH);
        assert_eq!((finds.of(early), finds.of(last)), (Seen::default(), seen));
    }
}
