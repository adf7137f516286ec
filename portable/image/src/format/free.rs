//! The pages that the OS does not use.
//!
//! An image omits free pages. If the OS accepts any contents in free pages, the image
//! lists long runs of them. On a machine with clear memory at power-on, a wake need not
//! touch the listed pages.

use poorwill_memory::{PAGE_BYTES, Page, PageMap, Run, to_usize};

use crate::workers::PowerFails;

/// The length of the list of free runs in pages.
pub(crate) const LIST_PAGES: u64 = 2;

/// The bytes of an entry: the index of the first page and the number of pages, 64 bits
/// each.
pub(crate) const ENTRY_BYTES: u64 = 16;

/// The most entries of the list.
const MAX_ENTRIES: usize = to_usize(LIST_PAGES * PAGE_BYTES / ENTRY_BYTES);

/// The length of the shortest listed run in pages: 2 MiB. If there are too many such
/// runs, only longer ones are listed.
const SHORTEST: [u64; 3] = [1 << 9, 1 << 12, 1 << 15];

/// Lists the long runs of `free`. Returns the list's length in bytes.
///
/// # Errors
///
/// [`PowerFails`], from `go_on`.
pub(crate) fn list(
    free: &PageMap<'_>,
    room: &mut [Page],
    mut go_on: impl FnMut() -> Result<(), PowerFails>,
) -> Result<u64, PowerFails> {
    let mut long = [0; SHORTEST.len()];
    let count = |run: Run| {
        for (shortest, long) in SHORTEST.iter().zip(&mut long) {
            *long += usize::from(run.pages >= *shortest);
        }
    };
    free.try_each_run(count, &mut go_on)?;
    let [.., longest] = SHORTEST;
    let fits = SHORTEST
        .iter()
        .zip(long)
        .find(|(_, long)| *long <= MAX_ENTRIES);
    let shortest = fits.map_or(longest, |(shortest, _)| *shortest);
    let (entries, _) = Page::words_mut(room).as_chunks_mut::<2>();
    entries.fill([0; 2]);
    let (mut entries, mut bytes) = (entries.iter_mut(), 0);
    let enter = |run: Run| {
        if run.pages >= shortest
            && let Some(entry) = entries.next()
        {
            *entry = [run.first, run.pages];
            bytes += ENTRY_BYTES;
        }
    };
    free.try_each_run(enter, go_on)?;
    Ok(bytes)
}

/// The list of free runs in an image.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FreeRuns<'a>(&'a [[u64; 2]]);

impl<'a> FreeRuns<'a> {
    /// The list in the first `bytes` bytes of `pages`.
    pub(crate) fn new(pages: &'a [Page], bytes: u64) -> Self {
        let (entries, _) = Page::words(pages).as_chunks();
        let count = to_usize(bytes / ENTRY_BYTES);
        FreeRuns(entries.get(..count).unwrap_or_default())
    }

    fn runs(self) -> impl Iterator<Item = Run> {
        self.0.iter().map(|&[first, pages]| Run { first, pages })
    }

    pub(crate) fn first(self) -> Option<Run> {
        self.runs().next()
    }

    /// Drops the first run.
    pub(crate) fn next(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }

    /// Whether a listed run shares a page with `run`.
    pub(crate) fn meet(self, run: Run) -> bool {
        let before = self.0.partition_point(|&[first, _]| first < end(run));
        let last = before.checked_sub(1).and_then(|last| self.runs().nth(last));
        last.is_some_and(|last| end(last) > run.first)
    }

    /// Whether the runs [`ascend`] and contain no saved page.
    pub(crate) fn fit(self, saved: &PageMap<'_>, os_pages: u64) -> bool {
        let is_clear = |run: Run| saved.next(run.first).is_none_or(|next| next >= end(run));
        ascend(self.runs(), os_pages) && self.runs().all(is_clear)
    }
}

/// Whether all runs are non-empty, ascend without overlap, and lie within `os_pages`
/// pages.
pub(crate) fn ascend(mut runs: impl Iterator<Item = Run>, os_pages: u64) -> bool {
    let mut from = 0;
    runs.all(|run| {
        let start = from;
        from = end(run);
        start <= run.first && run.pages > 0 && from <= os_pages
    })
}

fn end(run: Run) -> u64 {
    run.first.saturating_add(run.pages)
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    const OS_PAGES: u64 = 3 << 20;

    fn map(room: &mut [Page], free: impl Iterator<Item = Run>) -> PageMap<'_> {
        let mut map = PageMap::new(room, OS_PAGES).unwrap();
        free.flat_map(|run| run.first..run.first + run.pages)
            .for_each(|index| map.insert(index));
        map
    }

    fn listed(mut free: PageMap<'_>) -> Vec<Run> {
        let mut room = [const { Page([!0; 512]) }; 2];
        let bytes = list(&free, &mut room, || Ok(())).unwrap();
        let mut runs = FreeRuns::new(&room, bytes);
        free.try_invert(|| Ok::<_, PowerFails>(())).unwrap();
        assert!(runs.fit(&free, OS_PAGES));
        let all = core::iter::from_fn(|| {
            let run = runs.first()?;
            runs.next();
            Some(run)
        });
        all.collect()
    }

    #[test]
    fn long_runs_are_listed() {
        let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(OS_PAGES))];
        let run = |first, pages| Run { first, pages };
        let free = [run(3, 511), run(1000, 512), run(OS_PAGES - 4000, 4000)];
        assert_eq!(listed(map(&mut room, free.into_iter())), free[1..]);
    }

    #[test]
    fn only_longer_ones_are_where_there_are_many() {
        let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(OS_PAGES))];
        let short = (0..MAX_ENTRIES as u64).map(|number| Run {
            first: 1024 * number,
            pages: 600,
        });
        let long = Run {
            first: 1 << 20,
            pages: 1 << 13,
        };
        let shorts = listed(map(&mut room, short.clone()));
        assert_eq!(shorts.len(), MAX_ENTRIES);
        assert_eq!(listed(map(&mut room, short.chain([long]))), [long]);
    }

    #[test]
    fn no_room_is_ever_overrun() {
        let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(OS_PAGES))];
        let halves = (0..OS_PAGES >> 10).map(|number| Run {
            first: 1024 * number,
            pages: 512,
        });
        assert_eq!(listed(map(&mut room, halves)), []);
    }

    #[test]
    fn a_list_that_lies_does_not_fit() {
        let mut room = vec![Page::ZERO; to_usize(PageMap::pages_needed(OS_PAGES))];
        let saved = {
            let mut saved = PageMap::new(&mut room, OS_PAGES).unwrap();
            saved.insert(5000);
            saved
        };
        let fits = |entries: &[[u64; 2]]| FreeRuns(entries).fit(&saved, OS_PAGES);
        assert!(fits(&[]));
        assert!(fits(&[[0, 5000], [5001, OS_PAGES - 5001]]));
        assert!(!fits(&[[0, 5001]]), "a saved page");
        assert!(!fits(&[[4999, 2]]), "a saved page");
        assert!(!fits(&[[100, 1], [100, 1]]), "twice the same");
        assert!(!fits(&[[100, 1], [0, 1]]), "out of order");
        assert!(!fits(&[[100, 0]]), "nothing");
        assert!(!fits(&[[OS_PAGES, 1]]), "beyond the end");
        assert!(!fits(&[[u64::MAX, u64::MAX]]), "beyond all ends");
    }
}
