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

/// The version of the format that this crate writes, and the only one that it reads. Each
/// change of layout or meaning raises it.
pub const FORMAT_VERSION: u16 = 7;

/// The number of times that an image may wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ImageKind {
    /// One time: the OS continues.
    Once = 0,
    /// At every power-on: the OS continues from the same point each time.
    Snapshot = 1,
}

/// The sections of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SectionKind {
    /// The machine's state.
    State = 1,
    /// The map of saved pages.
    Map = 2,
    /// One digest for each piece of page data.
    Digests = 3,
    /// The saved pages.
    Data = 4,
    /// Runs of free pages.
    Free = 5,
    /// Runs of pages with strided fills.
    StridedFills = 6,
}

/// The place of a section in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// The first page, counted from the start of the slot.
    pub first_page: u64,
    /// The length in bytes; the last page is padded with zeros.
    pub bytes: u64,
    /// The digest of all pages; zeros for page data, which has a digest for each piece.
    pub digest: Digest,
}

/// The header of an image, with a verified checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The header's own checksum. It covers the digests of all sections, and so the whole
    /// image.
    pub checksum: u64,
    /// The number of the sleep.
    pub generation: u64,
    /// Whether the image may wake once or at every power-on.
    pub kind: ImageKind,
    /// The time of the sleep in nanoseconds since 1970 (UTC); 0: unknown.
    pub saved_at_ns: u64,
    /// The number of pages of OS memory.
    pub os_pages: u64,
    /// The number of saved pages; all others are zero, free, or in a strided fill.
    pub saved_pages: u64,
    /// The machine that slept.
    pub identity: MachineIdentity,
    /// The image's seal; `None`: a plain image.
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

/// The reason why a page is not a readable header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// The page holds other data.
    #[error("there is no image")]
    NotAnImage,
    /// The checksum is wrong.
    #[error("the image's header is damaged")]
    Damaged,
    /// Another version of Poorwill wrote it.
    #[error("the image has format {found}, this Poorwill reads format {known}")]
    Version {
        /// The image's format version.
        found: u16,
        /// The version that this crate reads.
        known: u16,
    },
    /// The checksum is right, but the contents are not: the writer had a bug.
    #[error("the image's header contradicts itself: {0}")]
    Invalid(&'static str),
}

/// A limit above the memory of any machine, 2^60 bytes, so that sums of lengths cannot overflow.
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
    /// Parses the first page of a slot.
    ///
    /// # Errors
    ///
    /// See [`HeaderError`].
    pub fn parse(page: &Page) -> Result<Header, HeaderError> {
        let raw: &RawHeader = zerocopy::transmute_ref!(page);
        if raw.magic != MAGIC {
            return Err(HeaderError::NotAnImage);
        }
        // Only the magic may be used before the checksum is verified. The checksum has
        // the same offset and range in every version.
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

    /// Converts the fields, after a check that all unknown fields are zero.
    fn from_raw(raw: &RawHeader) -> Result<Header, HeaderError> {
        let later = raw.later.iter().any(|byte| *byte != 0);
        if later
            || raw.zero.get() != 0
            || raw.zero_too.get() != 0
            || raw.header_bytes.get() != HEADER_BYTES
        {
            return Err(HeaderError::Invalid("fields of a later version are set"));
        }
        if raw.piece_pages.get() != PIECE_PAGES {
            return Err(HeaderError::Invalid("the length of pieces is unknown"));
        }
        if raw.section_count.get() != SECTIONS {
            return Err(HeaderError::Invalid("the number of sections is wrong"));
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

    /// Checks that sections follow the header and each other. Gaps are allowed.
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
                .ok_or(HeaderError::Invalid("the end of a section overflows"))?;
        }
        Ok(())
    }

    /// Fills `page` with this header, except for its tag and checksum: [`Header::finish`]
    /// adds them.
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

    /// Completes a written header with its tag, if it has one, and its checksum. Returns
    /// the checksum.
    pub(crate) fn finish(page: &mut Page, tag: Option<Digest>) -> u64 {
        let raw: &mut RawHeader = zerocopy::transmute_mut!(&mut *page);
        raw.tag = tag.unwrap_or(Digest::ZERO).to_bytes();
        page.0[CHECKSUM_WORD] = checksum::of_words(&page.0);
        page.0[CHECKSUM_WORD]
    }

    /// Clears tag and checksum, to verify the tag.
    pub(crate) fn without_tag(page: &mut Page) {
        let raw: &mut RawHeader = zerocopy::transmute_mut!(&mut *page);
        raw.tag = Digest::ZERO.to_bytes();
        raw.checksum = U64::ZERO;
    }

    /// The bytes of the slot that the image takes.
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
