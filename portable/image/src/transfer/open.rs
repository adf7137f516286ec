use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{Difference, MachineIdentity, PAGE_BYTES, Page, PageMap};
use thiserror::Error;

use super::workspace::Workspace;
use crate::format::digest::Digest;
use crate::format::free::FreeRuns;
use crate::format::header::{Header, HeaderError, ImageKind, SectionKind};
use crate::format::layout;
use crate::format::state::{StateError, StateSections};
use crate::format::strided_fills::StridedFills;
use crate::seal::{Cipher, CipherDirection, Part, SealError, SealingKey, Trust};

/// An image that is whole and consistent but for its page data, which has not
/// been looked at.
#[derive(Debug)]
pub struct Checked<'a> {
    pub(crate) header: Header,
    pub(crate) state: &'a [Page],
    pub(crate) map: PageMap<'a>,
    pub(crate) free: FreeRuns<'a>,
    pub(crate) strided_fills: StridedFills<'a>,
    pub(crate) digests: &'a [Page],
    /// Of a sealed image.
    pub(crate) cipher: Option<Cipher>,
}

/// A [`Checked`] image of this very machine.
#[derive(Debug)]
pub struct Opened<'a> {
    pub(crate) image: Checked<'a>,
    /// What is free need not be cleared.
    pub(crate) leave_free: bool,
}

impl<'a> Checked<'a> {
    /// The image's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The pages that are saved; the others are zero, free, or in a strided fill.
    #[must_use]
    pub fn map(&self) -> &PageMap<'_> {
        &self.map
    }

    /// The digest of a piece of page data.
    pub(crate) fn digest(&self, piece: u64) -> Option<Digest> {
        let piece = usize::try_from(piece).ok()?;
        let (digests, _) = Page::words(self.digests).as_chunks();
        digests.get(piece).map(|words| Digest(*words))
    }

    /// The machine's state.
    ///
    /// # Errors
    ///
    /// [`StateError`]: its writer's fault, as it fits its digest.
    pub fn state(&self) -> Result<StateSections<'a>, StateError> {
        StateSections::parse(self.state, self.header.state.bytes)
    }
}

impl<'a> core::ops::Deref for Opened<'a> {
    type Target = Checked<'a>;

    fn deref(&self) -> &Checked<'a> {
        &self.image
    }
}

/// Why an image is not woken. OS memory is untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The header cannot be read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The slot holds a header, but not the one that was committed.
    #[error("the image is not the one that was committed")]
    NotCommitted,
    /// The image's seal does not fit this machine.
    #[error("the image is refused: {0}")]
    Seal(#[from] SealError),
    /// The image belongs elsewhere.
    #[error("the image is of another machine: {0}")]
    OtherMachine(#[from] Difference),
    /// A part of the image does not fit its checksum.
    #[error("the image's {0:?} section is damaged")]
    Damaged(SectionKind),
    /// A part of the image is larger than there is room for.
    #[error("the image's {0:?} section is too large")]
    TooLarge(SectionKind),
    /// The image reaches beyond its slot.
    #[error("the image of {image_bytes} bytes reaches beyond its slot of {slot_bytes}")]
    BeyondSlot {
        /// Bytes of the image.
        image_bytes: u64,
        /// Bytes of the slot.
        slot_bytes: u64,
    },
    /// The checksums fit and the parts do not: a writer's fault.
    #[error("the image contradicts itself: {0}")]
    Inconsistent(&'static str),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// The image that is to be opened, as its commit named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The checksum of its header.
    pub header_checksum: u64,
    /// Its generation.
    pub generation: u64,
    /// How often it may wake.
    pub kind: ImageKind,
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct Here<'k> {
    /// What tells it from others.
    pub identity: MachineIdentity,
    /// Pages of OS memory.
    pub os_pages: u64,
    /// Which images it trusts.
    pub trust: Trust<'k>,
    /// OS memory holds nothing of an OS that ran before: it was clear when the
    /// power came on, and this is no reset. Free pages are left alone then.
    pub is_clear: bool,
}

/// Checks the image in `slot` but for its page data: its seal, every digest,
/// that it is the one that was committed, and that it is of this machine. Sizes
/// are limited before anything is read, and nothing is used before its digest
/// fits.
///
/// # Errors
///
/// See [`OpenError`].
pub fn open<'a, M: Medium>(
    slot: &mut M,
    committed: Expected,
    here: &Here<'_>,
    workspace: Workspace<'a>,
) -> Result<Opened<'a>, OpenError> {
    let header = read_header(slot, committed, workspace.header)?;
    let key = here.trust.key_for(header.seal.as_ref())?;
    header.identity.compare(&here.identity)?;
    if header.os_pages != here.os_pages {
        return Err(Difference::MemoryMap.into());
    }
    let cipher = authenticate(&header, key, workspace.header)?;
    Ok(Opened {
        image: read_sections(slot, header, cipher, workspace)?,
        leave_free: here.is_clear,
    })
}

/// As [`open`], on any machine: for looking at an image, not for waking it. A
/// sealed one takes its key. The workspace must be for the
/// [`Header::os_pages`] of the image.
///
/// # Errors
///
/// See [`OpenError`].
pub fn inspect<'a, M: Medium>(
    slot: &mut M,
    committed: Expected,
    key: Option<&SealingKey>,
    workspace: Workspace<'a>,
) -> Result<Checked<'a>, OpenError> {
    let header = read_header(slot, committed, workspace.header)?;
    let trust = match (key, header.seal) {
        (_, None) => Trust::Plain,
        (Some(key), Some(_)) => Trust::Sealed(key),
        (None, Some(_)) => Trust::NoKey { erased: false },
    };
    let key = trust.key_for(header.seal.as_ref())?;
    let cipher = authenticate(&header, key, workspace.header)?;
    read_sections(slot, header, cipher, workspace)
}

/// Reads the machine's state from the plain image that `header` was read from, and
/// nothing else of it: for looking at its sections. `room` has
/// [`STATE_PAGES`](crate::STATE_PAGES).
///
/// # Errors
///
/// [`OpenError::Damaged`] of a sealed image, too.
pub fn read_state<'a, M: Medium>(
    slot: &mut M,
    header: &Header,
    room: &'a mut [Page],
) -> Result<StateSections<'a>, OpenError> {
    read_section(slot, SectionKind::State, header, None, &mut *room)?;
    StateSections::parse(room, header.state.bytes)
        .map_err(|_| OpenError::Inconsistent("its state is malformed"))
}

fn read_header<M: Medium>(
    slot: &mut M,
    committed: Expected,
    page: &mut Page,
) -> Result<Header, OpenError> {
    slot.read(0, core::slice::from_mut(page))?;
    let header = Header::parse(page)?;
    let found = Expected {
        header_checksum: header.checksum,
        generation: header.generation,
        kind: header.kind,
    };
    if found != committed {
        return Err(OpenError::NotCommitted);
    }
    let (image_bytes, slot_bytes) = (header.image_bytes(), slot.capacity());
    if image_bytes > slot_bytes {
        return Err(OpenError::BeyondSlot {
            image_bytes,
            slot_bytes,
        });
    }
    Ok(header)
}

/// Checks the header's tag, and gives the cipher for the rest of a sealed
/// image. Spoils the header's page.
fn authenticate(
    header: &Header,
    key: Option<&SealingKey>,
    page: &mut Page,
) -> Result<Option<Cipher>, SealError> {
    let (Some(mark), Some(key)) = (&header.seal, key) else {
        return Ok(None);
    };
    let cipher = Cipher::new(key, header.generation, mark.salt);
    Header::without_tag(page);
    if cipher.authenticate(Part::Header, page) != mark.tag {
        return Err(SealError::Forged);
    }
    Ok(Some(cipher))
}

fn read_sections<'a, M: Medium>(
    slot: &mut M,
    header: Header,
    cipher: Option<Cipher>,
    workspace: Workspace<'a>,
) -> Result<Checked<'a>, OpenError> {
    let Workspace {
        state,
        map,
        free,
        strided_fills,
        digests,
        ..
    } = workspace;
    let mut read = |kind, pages| read_section(slot, kind, &header, cipher.as_ref(), pages);
    read(SectionKind::State, &mut *state)?;
    read(SectionKind::Map, &mut *map)?;
    read(SectionKind::Free, &mut *free)?;
    read(SectionKind::StridedFills, &mut *strided_fills)?;
    read(SectionKind::Digests, &mut *digests)?;
    let map = PageMap::from_saved(map, header.os_pages)
        .map_err(|_| OpenError::Inconsistent("its map names pages that do not exist"))?;
    if map.count() != header.saved_pages {
        return Err(OpenError::Inconsistent(
            "its map and its header differ in the number of pages",
        ));
    }
    let free = FreeRuns::new(free, header.free.bytes);
    if !free.fit(&map, header.os_pages) {
        return Err(OpenError::Inconsistent(
            "it lists free pages that are saved, or that do not exist",
        ));
    }
    let strided_fills = StridedFills::new(strided_fills, header.strided_fills.bytes);
    if !strided_fills.fit(free, header.os_pages) {
        return Err(OpenError::Inconsistent(
            "it lists strided fills in pages that are free, or that do not exist",
        ));
    }
    Ok(Checked {
        header,
        state,
        map,
        free,
        strided_fills,
        digests,
        cipher,
    })
}

/// Fills the start of `room` with a section, verifies and opens it.
fn read_section<M: Medium>(
    slot: &mut M,
    kind: SectionKind,
    header: &Header,
    cipher: Option<&Cipher>,
    room: &mut [Page],
) -> Result<(), OpenError> {
    let (part, section) = match kind {
        SectionKind::State => (Part::State, header.state),
        SectionKind::Map => (Part::Map, header.map),
        SectionKind::Free => (Part::Free, header.free),
        SectionKind::StridedFills => (Part::StridedFills, header.strided_fills),
        SectionKind::Digests | SectionKind::Data => (Part::Digests, header.digests),
    };
    let pages = usize::try_from(layout::pages_of(section.bytes))
        .ok()
        .and_then(|pages| room.get_mut(..pages))
        .ok_or(OpenError::TooLarge(kind))?;
    if !pages.is_empty() {
        slot.read(section.first_page * PAGE_BYTES, pages)?;
    }
    let digest = match cipher {
        Some(cipher) => cipher.pages(part, CipherDirection::Open, pages),
        None => Digest::of_pages(pages),
    };
    if digest != section.digest {
        return Err(OpenError::Damaged(kind));
    }
    Ok(())
}
