use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, PageHasher, to_usize};

use super::error::LoadError;
use super::open::Checked;
use crate::Progress;
use crate::format::digest::Digest;
use crate::format::layout::{self, PIECE_PAGES};
use crate::seal::{CipherDirection, Message, Part};

/// Reads and verifies all page data, without storing it. `scratch` holds at least one
/// page; [`PIECE_PAGES`] are best.
///
/// # Errors
///
/// See [`LoadError`].
///
/// # Panics
///
/// If `scratch` is empty.
pub fn verify<M: Medium>(
    slot: &mut M,
    image: &Checked<'_>,
    scratch: &mut [Page],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), LoadError> {
    assert!(!scratch.is_empty(), "verifying needs room for a page");
    let total_pages = image.header.saved_pages;
    for piece in 0..layout::pieces(total_pages) {
        let mut check = Check::new(image, piece);
        let mut page = piece * PIECE_PAGES;
        let end = (page + PIECE_PAGES).min(total_pages);
        while page < end {
            let pages = (scratch.len() as u64).min(end - page);
            let scratch = &mut scratch[..to_usize(pages)];
            slot.read((image.header.data.first_page + page) * PAGE_BYTES, scratch)?;
            check.take(scratch);
            page += pages;
        }
        if image.digest(piece) != Some(check.finish()) {
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

#[allow(
    clippy::large_enum_variant,
    reason = "only one value exists, on the stack"
)]
enum Check {
    Plain(PageHasher),
    Sealed(Message),
}

impl Check {
    fn new(image: &Checked<'_>, piece: u64) -> Check {
        match &image.cipher {
            Some(cipher) => Check::Sealed(cipher.message(Part::Piece(piece))),
            None => Check::Plain(PageHasher::new()),
        }
    }

    fn take(&mut self, pages: &mut [Page]) {
        match self {
            Check::Plain(hasher) => pages.iter().for_each(|page| hasher.page(page)),
            Check::Sealed(message) => message.pages(CipherDirection::Open, pages),
        }
    }

    fn finish(self) -> Digest {
        match self {
            Check::Plain(hasher) => Digest::of(&hasher),
            Check::Sealed(message) => message.finish(),
        }
    }
}
