//! The layout of a slot.

use arrayvec::ArrayVec;
use poorwill_memory::{OsPage, PAGE_BYTES, PageMap, to_usize};

use super::{free, strided_fills};

/// The number of saved pages in a piece, which share one digest: 1 MiB.
pub const PIECE_PAGES: u64 = 256;

/// The pages of one transfer.
pub(crate) type Batch = ArrayVec<OsPage, { to_usize(PIECE_PAGES) }>;

/// The alignment of page data in the slot, in bytes.
pub(crate) const DATA_ALIGN: u64 = 1 << 20;

pub(crate) const DIGEST_BYTES: u64 = 16;

const DIGESTS_PER_PAGE: u64 = PAGE_BYTES / DIGEST_BYTES;

pub(crate) const fn pieces(saved_pages: u64) -> u64 {
    saved_pages.div_ceil(PIECE_PAGES)
}

pub(crate) const fn digest_pages(saved_pages: u64) -> u64 {
    pieces(saved_pages).div_ceil(DIGESTS_PER_PAGE)
}

pub(crate) const fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// The first page of each section in the slot, for a new image. There is room for the
/// digests of all memory, because the number of saved pages is known only after the data
/// is written.
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

/// The offset of page data in a slot, in bytes, for `os_pages` pages of OS memory and
/// `state_bytes` bytes of state. This is the room that an image needs in addition to its
/// saved pages.
#[must_use]
pub const fn data_offset(os_pages: u64, state_bytes: u64) -> u64 {
    Layout::new(os_pages, state_bytes).data * PAGE_BYTES
}
