use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{PAGE_BYTES, Page, PageMap};
use thiserror::Error;

use crate::checksum;
use crate::header::{Header, HeaderError, Section, SectionKind};
use crate::identity::{Difference, MachineIdentity};
use crate::layout;
use crate::state::StateReader;
use crate::workspace::Workspace;

/// An image that is whole and consistent but for its page data, which has not
/// been looked at.
#[derive(Debug)]
pub struct Checked<'a> {
    pub(crate) header: Header,
    pub(crate) state: &'a [Page],
    pub(crate) map: PageMap<'a>,
    pub(crate) digests: &'a [Page],
}

/// A [`Checked`] image of this very machine.
#[derive(Debug)]
pub struct Opened<'a>(pub(crate) Checked<'a>);

impl Checked<'_> {
    /// The image's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The pages that are saved; the others are zero.
    #[must_use]
    pub fn map(&self) -> &PageMap<'_> {
        &self.map
    }

    /// The digest of a piece of page data.
    pub(crate) fn digest(&self, piece: u64) -> Option<u64> {
        let piece = usize::try_from(piece).ok()?;
        Page::words(self.digests).get(piece).copied()
    }

    /// The machine's state.
    #[must_use]
    pub fn state(&self) -> StateReader<'_> {
        StateReader::new(self.state, self.header.state.bytes)
    }
}

impl<'a> core::ops::Deref for Opened<'a> {
    type Target = Checked<'a>;

    fn deref(&self) -> &Checked<'a> {
        &self.0
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

/// Checks the image in `slot` but for its page data: every checksum, that it is
/// the one whose header has checksum `committed`, and that it is of this
/// machine (`here`, with `os_pages` pages of OS memory). Sizes are limited
/// before anything is read, and nothing is used before its checksum fits.
///
/// # Errors
///
/// See [`OpenError`].
pub fn open<'a, M: Medium>(
    slot: &mut M,
    committed: u64,
    here: &MachineIdentity,
    os_pages: u64,
    workspace: Workspace<'a>,
) -> Result<Opened<'a>, OpenError> {
    let header = read_header(slot, committed, workspace.header)?;
    header.identity.compare(here)?;
    if header.os_pages != os_pages {
        return Err(Difference::MemoryMap.into());
    }
    read_sections(slot, header, workspace).map(Opened)
}

/// As [`open`], on any machine: for looking at an image, not for waking it.
/// The workspace must be for the [`Header::os_pages`] of the image.
///
/// # Errors
///
/// See [`OpenError`].
pub fn inspect<'a, M: Medium>(
    slot: &mut M,
    committed: u64,
    workspace: Workspace<'a>,
) -> Result<Checked<'a>, OpenError> {
    let header = read_header(slot, committed, workspace.header)?;
    read_sections(slot, header, workspace)
}

fn read_header<M: Medium>(
    slot: &mut M,
    committed: u64,
    page: &mut Page,
) -> Result<Header, OpenError> {
    slot.read(0, core::slice::from_mut(page))?;
    let header = Header::parse(page)?;
    if header.checksum != committed {
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

fn read_sections<'a, M: Medium>(
    slot: &mut M,
    header: Header,
    workspace: Workspace<'a>,
) -> Result<Checked<'a>, OpenError> {
    let Workspace {
        state,
        map,
        digests,
        ..
    } = workspace;
    read_section(slot, SectionKind::State, header.state, state)?;
    read_section(slot, SectionKind::Map, header.map, map)?;
    read_section(slot, SectionKind::Digests, header.digests, digests)?;
    let map = PageMap::from_saved(map, header.os_pages)
        .map_err(|_| OpenError::Inconsistent("its map names pages that do not exist"))?;
    if map.count() != header.saved_pages {
        return Err(OpenError::Inconsistent(
            "its map and its header differ in the number of pages",
        ));
    }
    Ok(Checked {
        header,
        state,
        map,
        digests,
    })
}

/// Fills the start of `room` with a section and verifies it.
fn read_section<M: Medium>(
    slot: &mut M,
    kind: SectionKind,
    section: Section,
    room: &mut [Page],
) -> Result<(), OpenError> {
    let pages = usize::try_from(layout::pages_of(section.bytes))
        .ok()
        .and_then(|pages| room.get_mut(..pages))
        .ok_or(OpenError::TooLarge(kind))?;
    if !pages.is_empty() {
        slot.read(section.first_page * PAGE_BYTES, pages)?;
    }
    if checksum::of_words(Page::words(pages)) != section.checksum {
        return Err(OpenError::Damaged(kind));
    }
    Ok(())
}
