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

/// An image that is complete and consistent, except that its page data is not verified.
#[derive(Debug)]
pub struct Checked<'a> {
    pub(crate) header: Header,
    pub(crate) state: &'a [Page],
    pub(crate) map: PageMap<'a>,
    pub(crate) free: FreeRuns<'a>,
    pub(crate) strided_fills: StridedFills<'a>,
    pub(crate) digests: &'a [Page],
    pub(crate) cipher: Option<Cipher>,
}

/// A [`Checked`] image of this machine.
#[derive(Debug)]
pub struct Opened<'a> {
    pub(crate) image: Checked<'a>,
    /// Free pages need not be cleared, since memory was clear at power-on.
    pub(crate) leave_free: bool,
}

impl<'a> Checked<'a> {
    /// The image's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The map of saved pages; all others are zero, free, or in a strided fill.
    #[must_use]
    pub fn map(&self) -> &PageMap<'_> {
        &self.map
    }

    pub(crate) fn digest(&self, piece: u64) -> Option<Digest> {
        let piece = usize::try_from(piece).ok()?;
        let (digests, _) = Page::words(self.digests).as_chunks();
        digests.get(piece).map(|words| Digest(*words))
    }

    /// The machine's state.
    ///
    /// # Errors
    ///
    /// [`StateError`]: a bug of the writer, because the digest is right.
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

/// The reason why an image cannot wake. OS memory is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The header cannot be read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The slot holds a valid header, but not the committed one.
    #[error("the image is not the one that was committed")]
    NotCommitted,
    /// The machine does not trust the image's seal.
    #[error("the image is refused: {0}")]
    Seal(#[from] SealError),
    /// The image belongs to another machine.
    #[error("the image is of another machine: {0}")]
    OtherMachine(#[from] Difference),
    /// The digest of a section is wrong.
    #[error("the image's {0:?} section is damaged")]
    Damaged(SectionKind),
    /// A section is larger than the room for it.
    #[error("the image's {0:?} section is too large")]
    TooLarge(SectionKind),
    /// The image extends past the end of its slot.
    #[error("the image of {image_bytes} bytes reaches beyond its slot of {slot_bytes}")]
    BeyondSlot {
        /// The image's length.
        image_bytes: u64,
        /// The slot's length.
        slot_bytes: u64,
    },
    /// The digests are right, but the sections contradict each other: a bug of the
    /// writer.
    #[error("the image contradicts itself: {0}")]
    Inconsistent(&'static str),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// The committed image, as described by its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The checksum of its header.
    pub header_checksum: u64,
    /// Its generation.
    pub generation: u64,
    /// Whether it may wake once or at every power-on.
    pub kind: ImageKind,
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub struct Here<'k> {
    /// The hashes that identify this machine.
    pub identity: MachineIdentity,
    /// The number of pages of OS memory.
    pub os_pages: u64,
    /// The images that it trusts.
    pub trust: Trust<'k>,
    /// OS memory has no data of an earlier OS: it was clear at power-on, and this is not
    /// a reset. Then free pages need no clearing.
    pub is_clear: bool,
}

/// Checks the image in `slot` except its page data: its seal, each digest, that it is the
/// committed one, and that it is this machine's. Checks sizes before it reads, and
/// digests before it uses data.
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

/// Like [`open`], for an image of any machine, to inspect it. A sealed image needs
/// its key. The workspace must be for the image's [`Header::os_pages`].
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

/// Reads only the machine's state of the plain image with this `header`, to inspect its
/// sections. `room` has [`STATE_PAGES`](crate::STATE_PAGES).
///
/// # Errors
///
/// [`OpenError::Damaged`] for a sealed image, too.
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

/// Verifies the header's tag, and returns the cipher of a sealed image. Changes the
/// header's page.
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

/// Reads a section into the start of `room`, verifies and opens it.
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
