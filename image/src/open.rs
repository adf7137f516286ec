use poorwill_medium::{Medium, MediumError};
use thiserror::Error;

use crate::header::{Header, HeaderError, SectionKind};
use crate::identity::{Difference, MachineIdentity};
use crate::state::StateReader;
use crate::workspace::Workspace;

/// An image that is whole and consistent but for its page data, which has not
/// been looked at.
#[derive(Debug)]
pub struct Checked<'a> {
    pub(crate) header: Header,
    pub(crate) workspace: Workspace<'a>,
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

    /// The machine's state.
    #[must_use]
    pub fn state(&self) -> StateReader<'_> {
        StateReader::new(self.workspace.state, self.header.state.bytes)
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
    let _ = (slot, committed, here, os_pages, workspace);
    todo!()
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
    let _ = (slot, committed, workspace);
    todo!()
}
