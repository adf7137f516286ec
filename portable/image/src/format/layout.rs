//! Where things lie in a slot.

use arrayvec::ArrayVec;
use poorwill_memory::{OsPage, PAGE_BYTES, PageMap, to_usize};

use super::{free, strided_fills};

/// Saved pages that share one digest: 1 MiB of them.
pub const PIECE_PAGES: u64 = 256;

/// The pages of one transfer.
pub(crate) type Batch = ArrayVec<OsPage, { to_usize(PIECE_PAGES) }>;

/// Page data starts at a multiple of this many bytes of the slot.
pub(crate) const DATA_ALIGN: u64 = 1 << 20;

/// Bytes of a digest.
pub(crate) const DIGEST_BYTES: u64 = 16;

/// Digests in one page of digests.
const DIGESTS_PER_PAGE: u64 = PAGE_BYTES / DIGEST_BYTES;

/// Pieces that `saved_pages` pages make.
pub(crate) const fn pieces(saved_pages: u64) -> u64 {
    saved_pages.div_ceil(PIECE_PAGES)
}

/// Pages of digests for `saved_pages` pages.
pub(crate) const fn digest_pages(saved_pages: u64) -> u64 {
    pieces(saved_pages).div_ceil(DIGESTS_PER_PAGE)
}

/// Pages that `bytes` bytes fill or begin.
pub(crate) const fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// Page numbers, within the slot, of the sections of an image to be written.
/// There is room for the digests of all of memory: how much is saved is known
/// only when the data is written already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) state: u64,
    pub(crate) map: u64,
    pub(crate) free: u64,
    pub(crate) strided_fills: u64,
    pub(crate) digests: u64,
    pub(crate) data: u64,
}

impl Layout {
    pub(crate) const fn new(os_pages: u64, state_bytes: u64) -> Layout {
        let state = 1;
        let map = state + pages_of(state_bytes);
        let free = map + PageMap::pages_needed(os_pages);
        let strided_fills = free + free::LIST_PAGES;
        let digests = strided_fills + strided_fills::LIST_PAGES;
        let end = digests + digest_pages(os_pages);
        let data = end.next_multiple_of(DATA_ALIGN / PAGE_BYTES);
        Layout {
            state,
            map,
            free,
            strided_fills,
            digests,
            data,
        }
    }
}

/// Where page data starts in a slot, in bytes, for a machine of `os_pages`
/// pages and `state_bytes` bytes of state: what an image needs beside the
/// pages it saves.
#[must_use]
pub const fn data_offset(os_pages: u64, state_bytes: u64) -> u64 {
    Layout::new(os_pages, state_bytes).data * PAGE_BYTES
}
