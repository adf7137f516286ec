use poorwill_medium::Medium;
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use thiserror::Error;

use super::error::{LoadError, SaveError};
use super::open::{Checked, Expected, OpenError, inspect};
use super::save::{Saved, finish_header, finish_part, write_sections};
use super::workspace::Workspace;
use crate::Progress;
use crate::format::header::{Header, Section};
use crate::format::layout::{self, PIECE_PAGES};
use crate::seal::{Cipher, CipherDirection, Part, Seal, SealingKey};

/// The image to copy, and the parameters of the copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyRequest<'k> {
    /// The image.
    pub committed: Expected,
    /// The key of the sealed image; `None` for a plain image.
    pub key: Option<&'k SealingKey>,
    /// The copy's generation, from the store.
    pub generation: u64,
    /// The copy's seal; `None`: plain.
    pub seal: Option<Seal<'k>>,
}

/// The reason why an image was not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CopyError {
    /// The image cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The page data cannot be read, or is damaged.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The copy cannot be written.
    #[error(transparent)]
    Save(#[from] SaveError),
}

/// Copies an image into another slot and makes the copy durable. Only generation and seal
/// differ. Every part is verified before it is written. `scratch` holds a piece:
/// [`PIECE_PAGES`].
///
/// # Errors
///
/// See [`CopyError`].
///
/// # Panics
///
/// If `scratch` is smaller.
pub fn copy<M: Medium, N: Medium>(
    from: &mut M,
    to: &mut N,
    request: &CopyRequest<'_>,
    mut workspace: Workspace<'_>,
    scratch: &mut [Page],
    progress: &mut dyn FnMut(Progress),
) -> Result<Saved, CopyError> {
    let image = inspect(from, request.committed, request.key, workspace.reborrow())?;
    let Checked { header, cipher, .. } = image;
    let (needed_bytes, slot_bytes) = (header.image_bytes(), to.capacity());
    if needed_bytes > slot_bytes {
        return Err(SaveError::TooSmall {
            needed_bytes,
            slot_bytes,
        }
        .into());
    }
    let request_cipher = request
        .seal
        .map(|seal| Cipher::new(seal.key, request.generation, seal.salt));
    let ciphers = (cipher.as_ref(), request_cipher.as_ref());
    copy_data(
        (from, to),
        &header,
        ciphers,
        &mut workspace,
        scratch,
        progress,
    )?;
    let header = finish_copy(header, request, &mut workspace, ciphers.1);
    let header_checksum = finish_header(&header, workspace.header, ciphers.1);
    write_sections(to, &header, &workspace).map_err(SaveError::from)?;
    Ok(Saved {
        generation: header.generation,
        kind: header.kind,
        header_checksum,
        image_bytes: header.image_bytes(),
        saved_pages: header.saved_pages,
    })
}

/// Copies the page data piece by piece, and replaces the digests by the copy's.
fn copy_data<M: Medium, N: Medium>(
    (from, to): (&mut M, &mut N),
    header: &Header,
    (old, new): (Option<&Cipher>, Option<&Cipher>),
    workspace: &mut Workspace<'_>,
    scratch: &mut [Page],
    progress: &mut dyn FnMut(Progress),
) -> Result<(), CopyError> {
    let total_pages = header.saved_pages;
    let (digests, _) = Page::words_mut(workspace.digests).as_chunks_mut();
    for (piece, digest) in (0..layout::pieces(total_pages)).zip(digests) {
        let first = piece * PIECE_PAGES;
        let end = (first + PIECE_PAGES).min(total_pages);
        let pages = &mut scratch[..to_usize(end - first)];
        let place = (header.data.first_page + first) * PAGE_BYTES;
        from.read(place, pages).map_err(LoadError::from)?;
        let part = Part::Piece(piece);
        let found = match old {
            Some(cipher) => cipher.pages(part, CipherDirection::Open, pages),
            None => finish_part(None, part, pages),
        };
        if found.0 != *digest {
            return Err(LoadError::DamagedPiece { piece }.into());
        }
        *digest = finish_part(new, part, pages).0;
        to.write(place, pages).map_err(SaveError::from)?;
        progress(Progress {
            done_pages: end,
            total_pages,
            moved_bytes: end * PAGE_BYTES,
        });
    }
    Ok(())
}

/// The copy's header, made from the other sections in the workspace.
fn finish_copy(
    old: Header,
    request: &CopyRequest<'_>,
    workspace: &mut Workspace<'_>,
    cipher: Option<&Cipher>,
) -> Header {
    let finish = |part, section: Section, pages: &mut [Page]| {
        let pages = &mut pages[..to_usize(layout::pages_of(section.bytes))];
        Section {
            digest: finish_part(cipher, part, pages),
            ..section
        }
    };
    Header {
        generation: request.generation,
        seal: request.seal.as_ref().map(Seal::mark),
        state: finish(Part::State, old.state, workspace.state),
        map: finish(Part::Map, old.map, workspace.map),
        free: finish(Part::Free, old.free, workspace.free),
        strided_fills: finish(
            Part::StridedFills,
            old.strided_fills,
            workspace.strided_fills,
        ),
        digests: finish(Part::Digests, old.digests, workspace.digests),
        ..old
    }
}
