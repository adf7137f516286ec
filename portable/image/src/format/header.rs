use poorwill_memory::{MachineIdentity, PAGE_BYTES, Page, PageMap, checksum};
use thiserror::Error;
use zerocopy::little_endian::{U32, U64};

use super::digest::Digest;
use super::layout::{self, DIGEST_BYTES, PIECE_PAGES};
use super::raw_header::{
    CHECKSUM_WORD, HEADER_BYTES, MAGIC, PLAIN, RawHeader, RawSection, SECTIONS, XCHACHA20_POLY1305,
};
use super::seal_mark::{KeyId, Salt, SealMark};
use super::{free, strided_fills};

/// The version of the format that this crate writes, and the only one it
/// reads. Any change of what is where, or of what it means, raises it.
pub const FORMAT_VERSION: u16 = 7;

/// How often an image may wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ImageKind {
    /// Once: its OS goes on where it was.
    Once = 0,
    /// At every power-on: its OS starts there each time.
    Snapshot = 1,
}

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
    /// Runs of pages that the OS had free.
    Free = 5,
    /// Runs of pages that a few words make.
    StridedFills = 6,
}

/// Where a part of an image lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// First page, counted from the start of the slot.
    pub first_page: u64,
    /// Length in bytes; the last page is filled up with zeros.
    pub bytes: u64,
    /// Digest of all its pages; zeros for data, which has digests of its own.
    pub digest: Digest,
}

/// The header of an image, its checksum verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's own checksum. It covers the other sections' digests, and so
    /// stands for the whole image.
    pub checksum: u64,
    /// Counts the sleeps of an area.
    pub generation: u64,
    /// How often it may wake.
    pub kind: ImageKind,
    /// When the sleep began, in nanoseconds since 1970 (UTC); 0 when unknown.
    pub saved_at_ns: u64,
    /// Pages of OS memory.
    pub os_pages: u64,
    /// Pages saved; the others are zero, free, or in a strided fill.
    pub saved_pages: u64,
    /// The machine that slept.
    pub identity: MachineIdentity,
    /// The image's seal; `None` for a plain image.
    pub seal: Option<SealMark>,
    /// The machine's state.
    pub state: Section,
    /// The map of saved pages.
    pub map: Section,
    /// The runs of free pages.
    pub free: Section,
    /// The strided fills.
    pub strided_fills: Section,
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

/// More memory than any machine has, and little enough that no sum of lengths
/// overflows: 2^60 bytes.
const MAX_OS_PAGES: u64 = 1 << 48;

impl RawHeader {
    fn seal_mark(&self) -> Result<Option<SealMark>, HeaderError> {
        let unsealed = [&self.key[..], &self.salt, &self.tag]
            .iter()
            .all(|field| field.iter().all(|byte| *byte == 0));
        match self.sealing.get() {
            PLAIN if unsealed => Ok(None),
            XCHACHA20_POLY1305 => Ok(Some(SealMark {
                key: KeyId(self.key),
                salt: Salt(self.salt),
                tag: Digest::from_bytes(self.tag),
            })),
            _ => Err(HeaderError::Invalid("an unknown seal")),
        }
    }
}

impl Header {
    /// Reads the first page of a slot.
    ///
    /// # Errors
    ///
    /// See [`HeaderError`].
    pub fn parse(page: &Page) -> Result<Header, HeaderError> {
        let raw: &RawHeader = zerocopy::transmute_ref!(page);
        if raw.magic != MAGIC {
            return Err(HeaderError::NotAnImage);
        }
        // Nothing but the magic is believed before the checksum fits. Its
        // place and reach are the same in every version.
        if raw.checksum.get() != checksum::of_words_but(&page.0, CHECKSUM_WORD) {
            return Err(HeaderError::Damaged);
        }
        if raw.format.get() != FORMAT_VERSION {
            let found = raw.format.get();
            return Err(HeaderError::Version {
                found,
                known: FORMAT_VERSION,
            });
        }
        let header = Header::from_raw(raw)?;
        header.check_lengths()?;
        header.check_order()?;
        Ok(header)
    }

    /// Takes over the fields, once it is certain that nothing is set that this
    /// version does not know.
    fn from_raw(raw: &RawHeader) -> Result<Header, HeaderError> {
        let later = raw.later.iter().any(|byte| *byte != 0);
        if later
            || raw.zero.get() != 0
            || raw.zero_too.get() != 0
            || raw.header_bytes.get() != HEADER_BYTES
        {
            return Err(HeaderError::Invalid("fields of a later version are in use"));
        }
        if raw.piece_pages.get() != PIECE_PAGES {
            return Err(HeaderError::Invalid("pieces of another length"));
        }
        if raw.section_count.get() != SECTIONS {
            return Err(HeaderError::Invalid("another number of sections"));
        }
        let [memory, harts, isa, device_tree] = raw.identity.map(U64::get);
        let section = |kind: SectionKind| {
            let section = raw.sections[kind as usize - 1];
            if section.kind.get() != kind as u32 || section.zero.get() != 0 {
                return Err(HeaderError::Invalid("an unknown section"));
            }
            Ok(Section {
                first_page: section.first_page.get(),
                bytes: section.bytes.get(),
                digest: Digest::from_bytes(section.digest),
            })
        };
        let seal = raw.seal_mark()?;
        let kind = [ImageKind::Once, ImageKind::Snapshot]
            .into_iter()
            .find(|kind| *kind as u32 == raw.kind.get())
            .ok_or(HeaderError::Invalid("an unknown kind"))?;
        Ok(Header {
            checksum: raw.checksum.get(),
            generation: raw.generation.get(),
            kind,
            saved_at_ns: raw.saved_at_ns.get(),
            os_pages: raw.os_pages.get(),
            saved_pages: raw.saved_pages.get(),
            identity: MachineIdentity {
                memory,
                harts,
                isa,
                device_tree,
            },
            seal,
            state: section(SectionKind::State)?,
            map: section(SectionKind::Map)?,
            digests: section(SectionKind::Digests)?,
            data: section(SectionKind::Data)?,
            free: section(SectionKind::Free)?,
            strided_fills: section(SectionKind::StridedFills)?,
        })
    }

    fn check_lengths(&self) -> Result<(), HeaderError> {
        if self.os_pages > MAX_OS_PAGES || self.saved_pages > self.os_pages {
            return Err(HeaderError::Invalid("impossible numbers of pages"));
        }
        let lengths = [
            (
                self.map.bytes,
                PageMap::pages_needed(self.os_pages) * PAGE_BYTES,
            ),
            (
                self.digests.bytes,
                layout::pieces(self.saved_pages) * DIGEST_BYTES,
            ),
            (self.data.bytes, self.saved_pages * PAGE_BYTES),
        ];
        let lists = [
            (self.free.bytes, free::ENTRY_BYTES),
            (self.strided_fills.bytes, strided_fills::ENTRY_BYTES),
        ];
        let wrong = lengths.iter().any(|(found, right)| found != right)
            || lists
                .iter()
                .any(|(found, entry)| !found.is_multiple_of(*entry));
        if wrong {
            return Err(HeaderError::Invalid("a section of the wrong length"));
        }
        Ok(())
    }

    /// Sections follow the header and each other, with or without room between.
    fn check_order(&self) -> Result<(), HeaderError> {
        let mut end = 1;
        for section in [
            self.state,
            self.map,
            self.free,
            self.strided_fills,
            self.digests,
            self.data,
        ] {
            if section.first_page < end {
                return Err(HeaderError::Invalid("sections overlap"));
            }
            end = section
                .first_page
                .checked_add(layout::pages_of(section.bytes))
                .filter(|end| *end <= u64::MAX / PAGE_BYTES)
                .ok_or(HeaderError::Invalid("a section without end"))?;
        }
        Ok(())
    }

    /// Fills `page` with this header. Its own tag and checksum are not looked
    /// at: [`Header::finish`] puts them there.
    pub(crate) fn write(&self, page: &mut Page) {
        let section = |kind: SectionKind, section: Section| RawSection {
            kind: (kind as u32).into(),
            zero: U32::ZERO,
            first_page: section.first_page.into(),
            bytes: section.bytes.into(),
            digest: section.digest.to_bytes(),
        };
        let identity = self.identity;
        *page = Page::ZERO;
        let raw: &mut RawHeader = zerocopy::transmute_mut!(page);
        raw.magic = MAGIC;
        raw.format = FORMAT_VERSION.into();
        raw.header_bytes = HEADER_BYTES.into();
        raw.generation = self.generation.into();
        raw.kind = (self.kind as u32).into();
        raw.saved_at_ns = self.saved_at_ns.into();
        raw.os_pages = self.os_pages.into();
        raw.saved_pages = self.saved_pages.into();
        raw.piece_pages = PIECE_PAGES.into();
        raw.section_count = SECTIONS.into();
        raw.identity = [
            identity.memory,
            identity.harts,
            identity.isa,
            identity.device_tree,
        ]
        .map(U64::new);
        raw.sections = [
            section(SectionKind::State, self.state),
            section(SectionKind::Map, self.map),
            section(SectionKind::Digests, self.digests),
            section(SectionKind::Data, self.data),
            section(SectionKind::Free, self.free),
            section(SectionKind::StridedFills, self.strided_fills),
        ];
        if let Some(mark) = self.seal {
            raw.sealing = XCHACHA20_POLY1305.into();
            raw.key = mark.key.0;
            raw.salt = mark.salt.0;
        }
    }

    /// Completes a written header with its tag, if it has one, and its
    /// checksum, which it returns.
    pub(crate) fn finish(page: &mut Page, tag: Option<Digest>) -> u64 {
        let raw: &mut RawHeader = zerocopy::transmute_mut!(&mut *page);
        raw.tag = tag.unwrap_or(Digest::ZERO).to_bytes();
        page.0[CHECKSUM_WORD] = checksum::of_words(&page.0);
        page.0[CHECKSUM_WORD]
    }

    /// Makes of a whole header's page what its tag was made over.
    pub(crate) fn without_tag(page: &mut Page) {
        let raw: &mut RawHeader = zerocopy::transmute_mut!(&mut *page);
        raw.tag = Digest::ZERO.to_bytes();
        raw.checksum = U64::ZERO;
    }

    /// Bytes of the slot that the image takes.
    #[must_use]
    pub fn image_bytes(&self) -> u64 {
        self.data.first_page * PAGE_BYTES + self.data.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_pinned() {
        assert_eq!(FORMAT_VERSION, 7);
        assert_eq!([PLAIN, XCHACHA20_POLY1305], [0, 1]);
        let kinds = [ImageKind::Once, ImageKind::Snapshot];
        assert_eq!(kinds.map(|kind| kind as u32), [0, 1]);
        assert_eq!(PIECE_PAGES, 256);
        assert_eq!(DIGEST_BYTES, 16);
        assert_eq!(layout::DATA_ALIGN, 1 << 20);
        let kinds = [
            SectionKind::State,
            SectionKind::Map,
            SectionKind::Digests,
            SectionKind::Data,
            SectionKind::Free,
            SectionKind::StridedFills,
        ];
        assert_eq!(kinds.map(|kind| kind as u32), [1, 2, 3, 4, 5, 6]);
        assert_eq!(kinds.len(), SECTIONS as usize);
        assert_eq!([free::ENTRY_BYTES, strided_fills::ENTRY_BYTES], [16, 144]);
    }

    #[test]
    fn a_header_comes_back() {
        let section = |first_page, bytes, digest| Section {
            first_page,
            bytes,
            digest: Digest([digest, digest + 1]),
        };
        let mark = SealMark {
            key: KeyId([1; 16]),
            salt: Salt([2; 8]),
            tag: Digest([3, 4]),
        };
        let mut header = Header {
            checksum: 0,
            generation: 5,
            kind: ImageKind::Snapshot,
            saved_at_ns: 6,
            os_pages: 70_000,
            saved_pages: 1000,
            identity: MachineIdentity {
                memory: 9,
                harts: 10,
                isa: 11,
                device_tree: 12,
            },
            seal: Some(mark),
            state: section(1, 5000, 13),
            map: section(3, 3 * 4096, 14),
            free: section(6, 32, 16),
            strided_fills: section(7, 144, 17),
            digests: section(8, 64, 15),
            data: section(256, 1000 * 4096, 0),
        };
        let mut page = Page([!0; 512]);
        header.write(&mut page);
        header.checksum = Header::finish(&mut page, Some(mark.tag));
        assert_eq!(Header::parse(&page), Ok(header.clone()));

        header.seal = None;
        header.kind = ImageKind::Once;
        header.write(&mut page);
        header.checksum = Header::finish(&mut page, None);
        assert_eq!(Header::parse(&page), Ok(header));
    }
}
