//! Collects strided fills into an image's list.

use poorwill_memory::{Page, StridedFill, to_usize};

use crate::format::strided_fills::{ENTRY_BYTES, ENTRY_WORDS, Entry, at, entry};

/// A run gets an entry only if it includes its first `FIRST` pages and `SHORTEST` of the
/// next `JUDGED`. Linux's tables begin with many short runs, about the pages of files,
/// which would fill the list. The long runs about free memory follow.
const JUDGED: u64 = 64;
const FIRST: u64 = 8;
const SHORTEST: u64 = JUDGED / 2;

/// Collects the strided fills of a save. The pages must come in ascending order.
#[derive(Debug)]
pub(crate) struct Finder<'w> {
    room: &'w mut [Entry],
    found: usize,
    /// The page after the last reported one.
    next: u64,
    /// Whether the latest run may grow: each page from its first one to `next` is in it
    /// or saved.
    is_open: bool,
}

impl<'w> Finder<'w> {
    pub(crate) fn new(room: &'w mut [Page]) -> Self {
        let (room, rest) = Page::words_mut(room).as_chunks_mut();
        room.fill([0; ENTRY_WORDS]);
        rest.fill(0);
        Finder {
            room,
            found: 0,
            next: 0,
            is_open: false,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.found as u64 * ENTRY_BYTES
    }

    /// Reports page `index`, which is neither zero nor a strided fill, and so is saved.
    pub(crate) fn passes(&mut self, index: u64) {
        self.is_open &= self.next == index;
        self.next = index + 1;
    }

    /// Reports page `index`, which is a strided fill other than zeros. Returns whether
    /// the list covers it, so that it need not be saved. `ahead` reads later pages.
    pub(crate) fn takes<'p>(
        &mut self,
        index: u64,
        page: &Page,
        ahead: impl Fn(u64) -> Option<&'p Page>,
    ) -> bool {
        self.passes(index);
        let begun = StridedFill::begun(page);
        let (found, room) = self.room.split_at_mut(self.found);
        if let Some(latest) = found.last_mut().filter(|_| self.is_open)
            && at(latest, index) == begun
        {
            latest[1] = index + 1 - latest[0];
            return true;
        }
        let Some(new) = room.first_mut() else {
            return false;
        };
        if !is_worth_an_entry(index, &begun, ahead) {
            return false;
        }
        *new = entry(index, 1, &begun);
        self.found += 1;
        self.is_open = true;
        true
    }
}

fn is_worth_an_entry<'p>(
    index: u64,
    begun: &StridedFill,
    ahead: impl Fn(u64) -> Option<&'p Page>,
) -> bool {
    let is_in = |more| ahead(index + more).is_some_and(|page| begun.after(more).makes(page));
    let others = || (FIRST..JUDGED).filter(|more| !is_in(*more));
    let too_many = to_usize(JUDGED - SHORTEST);
    (1..FIRST).all(is_in) && others().nth(too_many).is_none()
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU64;
    use std::vec;
    use std::vec::Vec;

    use poorwill_memory::{PAGE_WORDS, PageWords, Run};

    use super::*;
    use crate::format::free::FreeRuns;
    use crate::format::strided_fills::{ENTRY_WORDS, LIST_PAGES, StridedFills};

    const ENTRIES: usize = to_usize(LIST_PAGES) * PAGE_WORDS / ENTRY_WORDS;

    fn strided_fill(seed: u64) -> StridedFill {
        StridedFill {
            row: [seed, 0, 0x40, !0, 0, 0, 7, 0],
            step: [0, 1, 64, 0, 0, seed << 50, 0, !0],
        }
    }

    fn page_of(strided_fill: StridedFill) -> Page {
        let words: PageWords = [const { AtomicU64::new(0) }; PAGE_WORDS];
        strided_fill.fill(&words);
        Page(words.map(AtomicU64::into_inner))
    }

    /// Reports these pages in this order; returns the list, and the pages that are saved.
    fn find(pages: &[(u64, Page)]) -> (Vec<Run>, Vec<u64>) {
        let mut room = vec![Page([!0; 512]); to_usize(LIST_PAGES)];
        let mut finder = Finder::new(&mut room);
        let page_at = |index| {
            pages
                .iter()
                .find(|(at, _)| *at == index)
                .map(|(_, page)| page)
        };
        let saved = pages.iter().filter_map(|(index, page)| {
            let taken = if StridedFill::of(page).is_some() {
                finder.takes(*index, page, page_at)
            } else {
                finder.passes(*index);
                false
            };
            (!taken).then_some(*index)
        });
        let saved: Vec<u64> = saved.collect();
        let bytes = finder.bytes();
        let list = StridedFills::new(&room, bytes);
        assert!(list.fit(FreeRuns::default(), u64::MAX));
        let end = pages.last().map_or(0, |(index, _)| index + 1);
        for index in (0..end).filter(|index| !saved.contains(index)) {
            match page_at(index) {
                Some(page) => assert!(list.at(index).is_some_and(|found| found.makes(page))),
                None => assert_eq!(list.at(index), None, "page {index} is zero"),
            }
        }
        (list.runs().collect(), saved)
    }

    fn run_of(seed: u64, first: u64, pages: u64) -> Vec<(u64, Page)> {
        let page = |more| (first + more, page_of(strided_fill(seed).after(more)));
        (0..pages).map(page).collect()
    }

    const fn run_at(first: u64, pages: u64) -> Run {
        Run { first, pages }
    }

    #[test]
    fn a_run_is_one_entry() {
        let (runs, saved) = find(&run_of(5, 100, 3000));
        assert_eq!((runs, saved), (vec![run_at(100, 3000)], vec![]));
    }

    #[test]
    fn other_pages_in_a_run_are_saved_and_do_not_end_it() {
        let mut pages = run_of(5, 0, 64);
        for (_, page) in pages.iter_mut().step_by(16).skip(1) {
            page.0[3] ^= 1;
        }
        pages.push((64, Page([1; 512])));
        assert_eq!(find(&pages), (vec![run_at(0, 64)], vec![16, 32, 48, 64]));
    }

    #[test]
    fn a_gap_ends_a_run() {
        // A page that is not reported is zero or free, and this strided fill is neither.
        let mut pages = run_of(5, 0, 100);
        pages.remove(50);
        assert_eq!(find(&pages), (vec![run_at(0, 50), run_at(51, 49)], vec![]));
    }

    #[test]
    fn a_run_that_has_ended_does_not_go_on() {
        // Behind the gap comes another page, and then more of the same table.
        let mut pages = run_of(5, 0, 100);
        pages.remove(50);
        pages[50].1.0[3] ^= 1;
        pages.truncate(51 + to_usize(SHORTEST - 1));
        let end = 52 + SHORTEST - 1;
        assert_eq!(find(&pages), (vec![run_at(0, 50)], (51..end).collect()));
    }

    #[test]
    fn short_runs_get_no_entry() {
        let short = run_of(5, 0, SHORTEST - 1);
        let all = (0..SHORTEST - 1).collect();
        assert_eq!(find(&short), (vec![], all));
        assert_eq!(find(&run_of(5, 0, SHORTEST)).1, vec![]);
    }

    #[test]
    fn many_short_runs_leave_the_list_to_a_long_one_behind_them() {
        let many = 2 * ENTRIES as u64;
        let mut pages: Vec<_> = (0..many).flat_map(|n| run_of(n + 1, 14 * n, 14)).collect();
        pages.extend(run_of(many + 1, 14 * many, 500));
        let (runs, saved) = find(&pages);
        assert_eq!(runs, [run_at(14 * many, 500)]);
        assert_eq!(saved.len() as u64, 14 * many);
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let runs = (0..ENTRIES as u64 + 1).flat_map(|n| run_of(n + 1, n * SHORTEST, SHORTEST));
        let (found, saved) = find(&runs.collect::<Vec<_>>());
        assert_eq!(found.len(), ENTRIES);
        assert_eq!(saved.len() as u64, SHORTEST);
    }
}
