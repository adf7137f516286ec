use thiserror::Error;
use zerocopy::IntoBytes;

use crate::page::{PAGE_WORDS, Page};

/// A set of pages: bit `index % 64` of word `index / 64` is set when the page
/// with that index is in it. One page of map speaks of 128 MiB of memory.
#[derive(Debug)]
pub struct PageMap<'a> {
    words: &'a mut [Page],
    pages: u64,
}

/// An extent: pages with consecutive indices that are all in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index of the first page.
    pub first: u64,
    /// How many pages.
    pub pages: u64,
}

/// Why a page map is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PageMapError {
    /// The room given is too small.
    #[error("a page map of {needed} pages does not fit in {given}")]
    NoRoom {
        /// Pages of map needed.
        needed: u64,
        /// Pages of map given.
        given: u64,
    },
    /// A bit beyond the last page is set.
    #[error("the page map names page {0}, which does not exist")]
    BeyondEnd(u64),
}
