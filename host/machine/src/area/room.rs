//! What opening an image takes: room, and how its commit has named it.

use poorwill_image::{Expected, Header, Workspace};
use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};

/// An image as its commit has named it.
pub(super) fn expected(header: &Header) -> Expected {
    Expected {
        header_checksum: header.checksum,
        generation: header.generation,
        kind: header.kind,
    }
}

/// Pages to work with on the image of so much memory in `slot`: too few for one that
/// speaks of more memory than a slot of that size could be for.
pub(super) fn work_pages<M: Medium>(os_pages: u64, slot: &M) -> Vec<Page> {
    let most = slot.capacity() / PAGE_BYTES + 64;
    vec![Page::ZERO; to_usize(Workspace::pages_needed(os_pages).min(most))]
}
