use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};

use crate::Progress;
use crate::checksum::Hasher;
use crate::layout::{self, PIECE_PAGES};
use crate::load::LoadError;
use crate::open::Checked;

/// Reads all page data and checks it, without putting it anywhere. `scratch`
/// holds at least one page; a piece of 256 is best.
///
/// # Errors
///
/// See [`LoadError`].
///
/// # Panics
///
/// When `scratch` is empty.
pub fn verify<M: Medium>(
    slot: &mut M,
    image: &Checked<'_>,
    scratch: &mut [Page],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LoadError> {
    assert!(!scratch.is_empty(), "verifying needs room for a page");
    let total_pages = image.header.saved_pages;
    for piece in 0..layout::pieces(total_pages) {
        let mut hasher = Hasher::new();
        let mut page = piece * PIECE_PAGES;
        let end = (page + PIECE_PAGES).min(total_pages);
        while page < end {
            let pages = (scratch.len() as u64).min(end - page);
            let scratch = &mut scratch[..to_usize(pages)];
            slot.read((image.header.data.first_page + page) * PAGE_BYTES, scratch)?;
            scratch.iter().for_each(|page| hasher.page(page));
            page += pages;
        }
        if image.digest(piece) != Some(hasher.finish()) {
            return Err(LoadError::DamagedPiece { piece });
        }
        progress(Progress {
            done_pages: end,
            total_pages,
            moved_bytes: end * PAGE_BYTES,
        });
    }
    Ok(())
}
