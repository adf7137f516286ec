//! The buffers and the commit's facts that are needed to open an image.

use poorwill_image::{Expected, Header, Workspace};
use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};

/// The facts about an image in its commit.
pub(super) fn expected(header: &Header) -> Expected {
    Expected {
        header_checksum: header.checksum,
        generation: header.generation,
        kind: header.kind,
    }
}

/// Working pages for the image of `os_pages` pages in `slot`. The number is limited by the slot's
/// size, so a false header cannot demand more.
pub(super) fn work_pages<M: Medium>(os_pages: u64, slot: &M) -> Vec<Page> {
    let most = slot.capacity() / PAGE_BYTES + 64;
    vec![Page::ZERO; to_usize(Workspace::pages_needed(os_pages).min(most))]
}
