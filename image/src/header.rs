use poorwill_memory::Page;
use thiserror::Error;

use crate::identity::MachineIdentity;

/// The version of the format that this crate writes, and the only one it
/// reads. Any change of what is where, or of what it means, raises it.
pub const FORMAT_VERSION: u16 = 1;

/// The parts of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SectionKind {
    /// The machine's state: records.
    State = 1,
    /// The map of saved pages.
    Map = 2,
    /// One digest for each piece of page data.
    Digests = 3,
    /// The saved pages.
    Data = 4,
}

/// Where a part of an image lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// First page, counted from the start of the slot.
    pub first_page: u64,
    /// Length in bytes; the last page is filled up with zeros.
    pub bytes: u64,
    /// Checksum of all its pages; 0 for data, which the digests cover.
    pub checksum: u64,
}

/// The header of an image, its checksum verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's own checksum. It covers the other sections' checksums, and
    /// so stands for the whole image.
    pub checksum: u64,
    /// Counts the sleeps of an area.
    pub generation: u64,
    /// When the sleep began, in nanoseconds since 1970 (UTC); 0 when unknown.
    pub saved_at_ns: u64,
    /// Pages of OS memory.
    pub os_pages: u64,
    /// Pages saved; the others are zero.
    pub saved_pages: u64,
    /// The machine that slept.
    pub identity: MachineIdentity,
    /// The machine's state.
    pub state: Section,
    /// The map of saved pages.
    pub map: Section,
    /// The digests.
    pub digests: Section,
    /// The saved pages.
    pub data: Section,
}

/// Why a page is no header that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// Something else altogether.
    #[error("there is no image")]
    NotAnImage,
    /// The checksum does not fit.
    #[error("the image's header is damaged")]
    Damaged,
    /// Written by a Poorwill with another format.
    #[error("the image has format {found}, this Poorwill reads format {known}")]
    Version {
        /// The image's format version.
        found: u16,
        /// The version read here.
        known: u16,
    },
    /// The checksum fits and the contents do not: a writer's fault.
    #[error("the image's header contradicts itself: {0}")]
    Invalid(&'static str),
}

impl Header {
    /// Reads the first page of a slot.
    ///
    /// # Errors
    ///
    /// See [`HeaderError`].
    pub fn parse(page: &Page) -> Result<Header, HeaderError> {
        let _ = page;
        todo!()
    }
}
