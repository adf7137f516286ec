//! Long runs of pages whose contents a few words describe.
//!
//! The unused parts of a kernel's tables are such runs: Linux has 16 MiB of them for each
//! GiB of memory. A *strided fill* describes all unsaved pages of a run. Saved pages in
//! the run have other contents, and do not end it.

use poorwill_memory::{Page, ROW_WORDS, Run, StridedFill, to_usize};

use super::free::{FreeRuns, ascend};

/// The length of the list of strided fills in pages.
pub(crate) const LIST_PAGES: u64 = 2;

/// The 64-bit words of an entry: the index of the first page, the number of pages, the
/// first row, and the step from each row to the next.
pub(crate) const ENTRY_WORDS: usize = 2 + 2 * ROW_WORDS;

/// The bytes of an entry.
pub(crate) const ENTRY_BYTES: u64 = 8 * ENTRY_WORDS as u64;

pub(crate) type Entry = [u64; ENTRY_WORDS];

fn run(entry: &Entry) -> Run {
    Run {
        first: entry[0],
        pages: entry[1],
    }
}

/// The entry for `pages` pages from page `first`, whose contents are `begun`.
pub(crate) fn entry(first: u64, pages: u64, begun: &StridedFill) -> Entry {
    let mut entry = [0; ENTRY_WORDS];
    entry[..2].copy_from_slice(&[first, pages]);
    entry[2..2 + ROW_WORDS].copy_from_slice(&begun.row);
    entry[2 + ROW_WORDS..].copy_from_slice(&begun.step);
    entry
}

/// The contents of unsaved page `index` in the run of the entry.
pub(crate) fn at(entry: &Entry, index: u64) -> StridedFill {
    let first = StridedFill {
        row: core::array::from_fn(|word| entry[2 + word]),
        step: core::array::from_fn(|word| entry[2 + ROW_WORDS + word]),
    };
    first.after(index - entry[0])
}

/// The list of strided fills in an image.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StridedFills<'a>(&'a [Entry]);

impl<'a> StridedFills<'a> {
    /// The list in the first `bytes` bytes of `pages`.
    pub(crate) fn new(pages: &'a [Page], bytes: u64) -> Self {
        let (entries, _) = Page::words(pages).as_chunks();
        let count = to_usize(bytes / ENTRY_BYTES);
        StridedFills(entries.get(..count).unwrap_or_default())
    }

    pub(crate) fn runs(self) -> impl Iterator<Item = Run> {
        self.0.iter().map(run)
    }

    /// The contents of unsaved page `index`; `None`: zero or free.
    pub(crate) fn at(self, index: u64) -> Option<StridedFill> {
        let before = self.0.partition_point(|entry| entry[0] <= index);
        let entry = self.0.get(before.checked_sub(1)?)?;
        (index - entry[0] < entry[1]).then(|| at(entry, index))
    }

    /// Whether the runs [`ascend`] and contain no listed free page.
    pub(crate) fn fit(self, free: FreeRuns<'_>, os_pages: u64) -> bool {
        ascend(self.runs(), os_pages) && !self.runs().any(|run| free.meet(run))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_list_that_lies_does_not_fit() {
        let nothing = StridedFill {
            row: [0; ROW_WORDS],
            step: [0; ROW_WORDS],
        };
        let entry = |(first, pages)| entry(first, pages, &nothing);
        let mut room = [Page::ZERO];
        Page::words_mut(&mut room)[..4].copy_from_slice(&[100, 10, 200, 5]);
        let free = FreeRuns::new(&room, 32);
        let fits = |runs: &[(u64, u64)]| {
            let entries: Vec<Entry> = runs.iter().copied().map(entry).collect();
            StridedFills(&entries).fit(free, 1000)
        };
        assert!(fits(&[]));
        assert!(fits(&[(0, 100), (110, 90), (205, 795)]));
        assert!(!fits(&[(0, 101)]), "the beginning of a free run");
        assert!(!fits(&[(109, 1)]), "the end of a free run");
        assert!(!fits(&[(150, 100)]), "around a free run");
        assert!(!fits(&[(0, 5), (4, 1)]), "twice the same");
        assert!(!fits(&[(10, 5), (0, 1)]), "out of order");
        assert!(!fits(&[(10, 0)]), "nothing");
        assert!(!fits(&[(1000, 1)]), "beyond the end");
        assert!(!fits(&[(300, u64::MAX)]), "beyond all ends");
    }
}
