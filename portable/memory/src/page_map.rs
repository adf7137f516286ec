use core::iter::FusedIterator;
use core::ops::Range;

use thiserror::Error;

use crate::page::{PAGE_BYTES, Page};
use crate::to_usize;

/// The pages that one page of the map covers: 128 MiB of memory.
const BITS_PER_PAGE: u64 = PAGE_BYTES * 8;

/// The number of pages between two calls of `go_on`: 16 MiB, with at most 2,048 runs.
const STRETCH: u64 = 64 * STRETCH_WORDS as u64;
const STRETCH_WORDS: usize = 64;

/// A set of pages: bit `index % 64` of word `index / 64` is set if the page with that
/// index is in the set. One page of the map covers 128 MiB of memory.
#[derive(Debug)]
pub struct PageMap<'a> {
    words: &'a mut [u64],
    pages: u64,
}

/// The reason why a page map is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageMapError {
    /// The room given is too small.
    #[error("a page map of {needed} pages does not fit in {given} pages")]
    NoRoom {
        /// The needed pages of map.
        needed: u64,
        /// The given pages of map.
        given: u64,
    },
    /// A bit past the last page is set.
    #[error("the page map names page {0}, which does not exist")]
    BeyondEnd(u64),
}

impl PageMap<'_> {
    /// The number of map pages for `os_pages` pages of memory.
    #[must_use]
    pub const fn pages_needed(os_pages: u64) -> u64 {
        os_pages.div_ceil(BITS_PER_PAGE)
    }
}

impl<'a> PageMap<'a> {
    /// An empty set for indices below `pages`; clears `room`.
    ///
    /// # Errors
    ///
    /// [`PageMapError::NoRoom`].
    pub fn new(room: &'a mut [Page], pages: u64) -> Result<Self, PageMapError> {
        let words = words_for(room, pages)?;
        words.fill(0);
        Ok(PageMap { words, pages })
    }

    /// The set stored in `saved`, for indices below `pages`.
    ///
    /// # Errors
    ///
    /// [`PageMapError::NoRoom`], or [`PageMapError::BeyondEnd`] if a bit for an index
    /// from `pages` on is set.
    pub fn from_saved(saved: &'a mut [Page], pages: u64) -> Result<Self, PageMapError> {
        let words = words_for(saved, pages)?;
        let mut beyond = Indices {
            words,
            invert: 0,
            at: pages,
            end: words.len() as u64 * 64,
        };
        match beyond.next() {
            Some(index) => Err(PageMapError::BeyondEnd(index)),
            None => Ok(PageMap { words, pages }),
        }
    }
}

impl PageMap<'_> {
    /// Adds a page.
    ///
    /// # Panics
    ///
    /// If there is no such page.
    pub fn insert(&mut self, index: u64) {
        assert!(index < self.pages, "page {index} of {}", self.pages);
        self.words[word_of(index)] |= 1 << (index % 64);
    }

    /// Adds `pages` pages from index `first`. Returns false if one of them is already in
    /// the set or does not exist; some may have been added then.
    #[must_use]
    pub fn insert_new(&mut self, first: u64, pages: u64) -> bool {
        let Some(end) = first.checked_add(pages).filter(|end| *end <= self.pages) else {
            return false;
        };
        let mut at = first;
        while at < end {
            let bits = (end - at).min(64 - at % 64);
            let mask = !0 >> (64 - bits) << (at % 64);
            let word = &mut self.words[word_of(at)];
            if *word & mask != 0 {
                return false;
            }
            *word |= mask;
            at += bits;
        }
        true
    }

    /// Removes all pages.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Removes a page, if the set has it.
    pub fn remove(&mut self, index: u64) {
        if index < self.pages {
            self.words[word_of(index)] &= !(1 << (index % 64));
        }
    }

    /// Replaces the set by its complement. Stops if `go_on` fails.
    ///
    /// # Errors
    ///
    /// The error of `go_on`. The set is then invalid.
    pub fn try_invert<E>(&mut self, mut go_on: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let (whole, rest) = self.words.split_at_mut(word_of(self.pages));
        for stretch in whole.chunks_mut(STRETCH_WORDS) {
            go_on()?;
            stretch.iter_mut().for_each(|word| *word = !*word);
        }
        if let Some(word) = rest.first_mut() {
            *word ^= (1 << (self.pages % 64)) - 1;
        }
        Ok(())
    }

    /// Whether a page is in the set.
    #[must_use]
    pub fn contains(&self, index: u64) -> bool {
        index < self.pages && self.words[word_of(index)] >> (index % 64) & 1 == 1
    }

    /// The number of pages of memory, in the set or not.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The number of pages in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        count(self.words)
    }

    /// The number of pages in the set. Stops if `go_on` fails.
    ///
    /// # Errors
    ///
    /// The error of `go_on`.
    pub fn try_count<E>(&self, mut go_on: impl FnMut() -> Result<(), E>) -> Result<u64, E> {
        let words = &self.words[..to_usize(self.pages.div_ceil(64))];
        words.chunks(STRETCH_WORDS).try_fold(0, |pages, stretch| {
            go_on()?;
            Ok(pages + count(stretch))
        })
    }

    /// The word of the map with page `index`: bit n is page `index / 64 * 64 + n`.
    #[must_use]
    pub fn word(&self, index: u64) -> u64 {
        self.words.get(word_of(index)).copied().unwrap_or(0)
    }

    /// The first index in the set from `from` on.
    #[must_use]
    pub fn next(&self, from: u64) -> Option<u64> {
        self.next_in(from..self.pages)
    }

    /// The first index in the set within a range. The range limits the cost.
    #[must_use]
    pub fn next_in(&self, range: Range<u64>) -> Option<u64> {
        self.indices(0, range).next()
    }

    /// All indices in the set, ascending.
    #[must_use]
    pub fn members(&self) -> Indices<'_> {
        self.indices(0, 0..self.pages)
    }

    /// All indices outside the set, ascending.
    #[must_use]
    pub fn others(&self) -> Indices<'_> {
        self.indices(!0, 0..self.pages)
    }

    /// The indices in a range. Reads no words after it.
    fn indices(&self, invert: u64, range: Range<u64>) -> Indices<'_> {
        let end = range.end.min(self.pages);
        Indices {
            words: &self.words[..to_usize(end.div_ceil(64))],
            invert,
            at: range.start,
            end,
        }
    }

    /// Calls `each` with each maximal run of the set, ascending. Stops if `go_on` fails.
    ///
    /// # Errors
    ///
    /// The error of `go_on`.
    pub fn try_each_run<E>(
        &self,
        mut each: impl FnMut(Run),
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last = None::<Run>;
        let mut start = 0;
        while start < self.pages {
            go_on()?;
            let end = self.pages.min(start + STRETCH);
            for run in self.runs_in(start..end) {
                match &mut last {
                    Some(last) if last.first + last.pages == run.first => last.pages += run.pages,
                    _ => last.replace(run).into_iter().for_each(&mut each),
                }
            }
            start = end;
        }
        last.into_iter().for_each(each);
        Ok(())
    }

    /// The runs of the set within a range.
    fn runs_in(&self, range: Range<u64>) -> impl Iterator<Item = Run> + '_ {
        let mut set = self.indices(0, range.clone());
        let mut clear = self.indices(!0, range.clone());
        core::iter::from_fn(move || {
            let first = set.next()?;
            clear.skip_to(first);
            let end = clear.next().unwrap_or(range.end);
            set.skip_to(end);
            Some(Run {
                first,
                pages: end - first,
            })
        })
    }
}

/// Pages with consecutive indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The index of the first page.
    pub first: u64,
    /// The number of pages.
    pub pages: u64,
}

/// Ascending indices of a page map. Empty words are skipped whole. A clone continues from
/// the same index.
#[derive(Clone, Debug)]
pub struct Indices<'a> {
    words: &'a [u64],
    /// All ones to find clear bits.
    invert: u64,
    at: u64,
    end: u64,
}

impl Indices<'_> {
    /// Skips all indices below `index`.
    pub fn skip_to(&mut self, index: u64) {
        self.at = self.at.max(index);
    }
}

impl Iterator for Indices<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        if self.at >= self.end {
            return None;
        }
        let mut number = word_of(self.at);
        let mut word = (self.words[number] ^ self.invert) & (!0 << (self.at % 64));
        while word == 0 {
            number += 1;
            word = self.words.get(number)? ^ self.invert;
        }
        let index = number as u64 * 64 + u64::from(word.trailing_zeros());
        self.at = index + 1;
        (index < self.end).then_some(index)
    }
}

impl FusedIterator for Indices<'_> {}

fn count(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

fn word_of(index: u64) -> usize {
    to_usize(index / 64)
}

fn words_for(room: &mut [Page], pages: u64) -> Result<&mut [u64], PageMapError> {
    let needed = PageMap::pages_needed(pages);
    let given = room.len() as u64;
    room.get_mut(..to_usize(needed))
        .map(Page::words_mut)
        .ok_or(PageMapError::NoRoom { needed, given })
}
