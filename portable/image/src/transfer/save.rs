use core::slice;

use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{MachineIdentity, OsMemory, PAGE_BYTES, Page, PageHasher, PageMap, to_usize};

use super::error::SaveError;
use super::sealed::{NotOpened, SealedMemory, SealedPieces, open_sealed};
use super::workspace::Workspace;
use super::write::write_memory;
use crate::Progress;
use crate::format::digest::Digest;
use crate::format::header::{Header, ImageKind, Section};
use crate::format::layout::{self, DIGEST_BYTES, Layout};
use crate::seal::{Cipher, CipherDirection, Message, Part, Seal, SealingKey};
use crate::workers::{PowerFails, Workers};

/// The parameters of a save.
#[derive(Clone, Copy, Debug)]
pub struct SaveRequest<'k> {
    /// The machine's identity.
    pub identity: MachineIdentity,
    /// The sleep's number, from the store.
    pub generation: u64,
    /// Whether the image may wake once or at every power-on.
    pub kind: ImageKind,
    /// The current time in nanoseconds since 1970 (UTC); 0: unknown.
    pub saved_at_ns: u64,
    /// The bytes of state in the workspace, from [`crate::StateWriter::finish`].
    pub state_bytes: u64,
    /// The image's seal; `None`: plain.
    pub seal: Option<Seal<'k>>,
}

/// The proof that a whole image is durable in a slot. The store requires it for a commit.
#[derive(Debug, PartialEq, Eq)]
pub struct Saved {
    pub(crate) generation: u64,
    pub(crate) kind: ImageKind,
    pub(crate) header_checksum: u64,
    pub(crate) image_bytes: u64,
    pub(crate) saved_pages: u64,
}

impl Saved {
    /// The number of the sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the image may wake once or at every power-on.
    #[must_use]
    pub fn kind(&self) -> ImageKind {
        self.kind
    }

    /// The checksum of the image's header, which covers the whole image.
    #[must_use]
    pub fn header_checksum(&self) -> u64 {
        self.header_checksum
    }

    /// The bytes of the slot that the image takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.image_bytes
    }

    /// The number of saved pages: those that are not zero, not in a strided fill, and not
    /// [left out](Workspace::leave_out).
    #[must_use]
    pub fn saved_pages(&self) -> u64 {
        self.saved_pages
    }
}

/// Saves memory, and the machine's state in the workspace, into `slot`, and makes the
/// image durable. The OS's harts are stopped, so memory does not change. A sealed image's
/// pages are encrypted in place, because there is no room for a copy; if the commit
/// fails, [`give_back`] decrypts them. Pages excluded by [`Workspace::leave_out`] are not
/// accessed.
///
/// # Errors
///
/// See [`SaveError`]. No DMA is in progress then. Memory is unchanged, except for pages
/// [left sealed](Workspace::take_left_sealed) after a power failure.
pub fn save<M: Medium>(
    slot: &mut M,
    memory: &mut OsMemory,
    request: &SaveRequest<'_>,
    workspace: &mut Workspace<'_>,
    workers: &dyn Workers,
    progress: &mut dyn FnMut(Progress),
) -> Result<Saved, SaveError> {
    workspace.check_room(memory.pages(), request.state_bytes)?;
    let free_bytes = workspace.take_survey(memory.pages(), workers)?;
    workspace.sealed_pieces = SealedPieces::NONE;
    workspace.sealed_map_pages = 0;
    let saved = save_all(
        slot, memory, request, free_bytes, workspace, workers, progress,
    );
    if saved.is_err() {
        slot.quiesce();
        give_back(request, memory, workspace, workers);
    }
    saved
}

/// Like [`save`], but pages stay sealed after an error.
fn save_all<M: Medium>(
    slot: &mut M,
    memory: &OsMemory,
    request: &SaveRequest<'_>,
    free_bytes: u64,
    workspace: &mut Workspace<'_>,
    workers: &dyn Workers,
    progress: &mut dyn FnMut(Progress),
) -> Result<Saved, SaveError> {
    let cipher = request.cipher();
    let cipher = cipher.as_ref();
    let layout = Layout::new(memory.pages(), request.state_bytes);
    let written = write_memory(
        slot,
        memory,
        layout.data,
        workspace,
        cipher,
        workers,
        progress,
    )?;
    let amounts = Amounts {
        os_pages: memory.pages(),
        saved_pages: written.pages,
        free_bytes,
        strided_fill_bytes: written.strided_fill_bytes,
    };
    let header = finish_sections(request, &amounts, workspace, cipher, workers)?;
    let header_checksum = finish_header(&header, workspace.header, cipher);
    write_sections(slot, &header, workspace)?;
    Ok(Saved {
        generation: request.generation,
        kind: request.kind,
        header_checksum,
        image_bytes: header.image_bytes(),
        saved_pages: written.pages,
    })
}

/// Decrypts the pages that [`save`] encrypted in place, if the image was not committed
/// and the OS continues. After a power failure, pages that are [left
/// sealed](Workspace::take_left_sealed) are decrypted later. Does nothing after a plain
/// save.
///
/// `request` and `workspace` must be the ones of the save.
pub fn give_back(
    request: &SaveRequest<'_>,
    memory: &mut OsMemory,
    workspace: &mut Workspace<'_>,
    workers: &dyn Workers,
) {
    let Some((cipher, seal)) = request.cipher().zip(request.seal) else {
        return;
    };
    let sealed = SealedMemory::new(
        (request.generation, seal.salt),
        workspace.sealed_map_pages,
        workspace.sealed_pieces,
    );
    workspace.left_sealed = match open_sealed(sealed, &cipher, memory, workspace.map, workers) {
        // The save made this map, so it contains only valid pages.
        Ok(()) | Err(NotOpened::Map(_)) => None,
        Err(NotOpened::PowerFails(left)) => Some(left),
    };
}

/// Decrypts in place the pages that a save left sealed. `workspace` is in the state after
/// that save.
///
/// # Errors
///
/// [`NotOpened`].
pub fn open_in_place(
    sealed: SealedMemory,
    key: &SealingKey,
    memory: &mut OsMemory,
    workspace: &mut Workspace<'_>,
    workers: &dyn Workers,
) -> Result<(), NotOpened> {
    let cipher = sealed.cipher(key);
    open_sealed(sealed, &cipher, memory, workspace.map, workers)
}

impl SaveRequest<'_> {
    fn cipher(&self) -> Option<Cipher> {
        self.seal
            .map(|seal| Cipher::new(seal.key, self.generation, seal.salt))
    }
}

struct Amounts {
    os_pages: u64,
    saved_pages: u64,
    free_bytes: u64,
    strided_fill_bytes: u64,
}

/// Seals the sections in the workspace, computes their digests, and makes the header.
fn finish_sections(
    request: &SaveRequest<'_>,
    amounts: &Amounts,
    workspace: &mut Workspace<'_>,
    cipher: Option<&Cipher>,
    workers: &dyn Workers,
) -> Result<Header, PowerFails> {
    let (os_pages, saved_pages) = (amounts.os_pages, amounts.saved_pages);
    let layout = Layout::new(os_pages, request.state_bytes);
    let section = |part, first_page, bytes, pages: &mut [Page], done: &mut u64| {
        finish_slowly((cipher, workers), part, first_page, bytes, pages, done)
    };
    let sealed_map_pages = &mut workspace.sealed_map_pages;
    let map_bytes = PageMap::pages_needed(os_pages) * PAGE_BYTES;
    let digest_bytes = layout::pieces(saved_pages) * DIGEST_BYTES;
    Ok(Header {
        checksum: 0,
        generation: request.generation,
        kind: request.kind,
        saved_at_ns: request.saved_at_ns,
        os_pages,
        saved_pages,
        identity: request.identity,
        seal: request.seal.as_ref().map(Seal::mark),
        state: section(
            Part::State,
            layout.state,
            request.state_bytes,
            workspace.state,
            &mut 0,
        )?,
        map: section(
            Part::Map,
            layout.map,
            map_bytes,
            workspace.map,
            sealed_map_pages,
        )?,
        free: section(
            Part::Free,
            layout.free,
            amounts.free_bytes,
            workspace.free,
            &mut 0,
        )?,
        strided_fills: section(
            Part::StridedFills,
            layout.strided_fills,
            amounts.strided_fill_bytes,
            workspace.strided_fills,
            &mut 0,
        )?,
        digests: section(
            Part::Digests,
            layout.digests,
            digest_bytes,
            workspace.digests,
            &mut 0,
        )?,
        data: Section {
            first_page: layout.data,
            bytes: saved_pages * PAGE_BYTES,
            digest: Digest::ZERO,
        },
    })
}

/// Like [`finish_part`], but page by page, and stops if the power fails. `done` counts
/// the pages.
fn finish_slowly(
    (cipher, workers): (Option<&Cipher>, &dyn Workers),
    part: Part,
    first_page: u64,
    bytes: u64,
    pages: &mut [Page],
    done: &mut u64,
) -> Result<Section, PowerFails> {
    let mut message = cipher.map(|cipher| cipher.message(part));
    let mut hasher = PageHasher::new();
    for page in &mut pages[..to_usize(layout::pages_of(bytes))] {
        workers.go_on()?;
        match &mut message {
            Some(message) => message.pages(CipherDirection::Seal, slice::from_mut(page)),
            None => hasher.page(page),
        }
        *done += 1;
    }
    Ok(Section {
        first_page,
        bytes,
        digest: message.map_or_else(|| Digest::of(&hasher), Message::finish),
    })
}

/// Seals the pages of a part, if there is a cipher. Returns their digest.
pub(crate) fn finish_part(cipher: Option<&Cipher>, part: Part, pages: &mut [Page]) -> Digest {
    match cipher {
        Some(cipher) => cipher.pages(part, CipherDirection::Seal, pages),
        None => Digest::of_pages(pages),
    }
}

/// Fills the header's page. Returns its checksum.
pub(crate) fn finish_header(header: &Header, page: &mut Page, cipher: Option<&Cipher>) -> u64 {
    header.write(page);
    let tag = cipher.map(|cipher| cipher.authenticate(Part::Header, page));
    Header::finish(page, tag)
}

/// Writes all sections except page data, and makes the whole image durable.
pub(crate) fn write_sections<M: Medium>(
    slot: &mut M,
    header: &Header,
    workspace: &Workspace<'_>,
) -> Result<(), MediumError> {
    let sections = [
        (header.state, &*workspace.state),
        (header.map, workspace.map),
        (header.free, workspace.free),
        (header.strided_fills, workspace.strided_fills),
        (header.digests, workspace.digests),
    ];
    for (section, pages) in sections {
        let pages = &pages[..to_usize(layout::pages_of(section.bytes))];
        if !pages.is_empty() {
            slot.write(section.first_page * PAGE_BYTES, pages)?;
        }
    }
    slot.write(0, slice::from_ref(workspace.header))?;
    slot.flush()
}
