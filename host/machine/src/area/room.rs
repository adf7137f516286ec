//! The buffers and the expected values that are needed to open an image.

use poorwill_image::{Expected, Header, Workspace};
use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};

/// The values in an image's commit record, for a comparison with its header.
pub(super) fn expected(header: &Header) -> Expected {
    Expected {
        header_checksum: header.checksum,
        generation: header.generation,
        kind: header.kind,
    }
}

/// Working pages to read an image of a machine with `os_pages` pages. The slot's size limits their
/// number, so that a false header cannot demand more.
pub(super) fn work_pages<M: Medium>(os_pages: u64, slot: &M) -> Vec<Page> {
    let most = slot.capacity() / PAGE_BYTES + 64;
    vec![Page::ZERO; to_usize(Workspace::pages_needed(os_pages).min(most))]
}
