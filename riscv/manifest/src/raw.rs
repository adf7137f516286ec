use core::fmt;

use arrayvec::ArrayVec;
use crc::{CRC_32_ISO_HDLC, Crc};
use poorwill_memory::PhysRange;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::formats::{Formats, Versions};
use crate::layout::{CutRecord, DataRange, MAX_TERMS, MemoryLayout};

/// Start of a manifest of every version.
pub(crate) const MAGIC: [u8; 16] = *b"POORWILL FORMATS";

/// The version that this crate writes. It also reads version 1, which has no fields for cuts, and
/// version 2, which has none for an executor.
pub const MANIFEST_VERSION: u16 = 3;

/// The oldest version that is read.
const OLDEST_VERSION: u16 = 1;

/// Bytes of a manifest.
pub const MANIFEST_BYTES: usize = 512;

/// Maximum number of state sections in a manifest.
pub const MAX_SECTIONS: usize = 32;

/// Offset of the checksum in every version.
const CHECKSUM_AT: usize = 20;

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// A section of the machine's state that a firmware reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionVersion {
    /// A tag of four letters, the first in the lowest byte.
    pub owner: u32,
    /// Version of its layout.
    pub version: u16,
}

/// Contents of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Poorwill's version: major, minor, patch.
    pub release: [u16; 3],
    /// Formats that the firmware reads.
    pub formats: Formats,
    /// Memory that the firmware keeps.
    pub layout: MemoryLayout,
    /// Sections of the machine's state that the firmware reads.
    pub sections: ArrayVec<SectionVersion, MAX_SECTIONS>,
}

/// A manifest that [`Parts::encode`] turns into bytes at compile time.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'p> {
    /// As [`Manifest::release`].
    pub release: [u16; 3],
    /// As [`Manifest::formats`].
    pub formats: Formats,
    /// As [`Manifest::layout`].
    pub layout: MemoryLayout,
    /// As [`Manifest::sections`]; at most [`MAX_SECTIONS`].
    pub sections: &'p [SectionVersion],
}

/// Layout of a manifest in a file.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawManifest {
    magic: [u8; 16],
    version: U16,
    bytes: U16,
    checksum: U32,
    release: [U16; 3],
    zero: U16,
    image: [U16; 2],
    record: [U16; 2],
    configuration: [U16; 2],
    vault: [U16; 2],
    identity_rule: U16,
    placement_rule: U16,
    zero_too: U32,
    loaded_start: U64,
    loaded_bytes: U64,
    fixed_pages: U64,
    hart_pages: U64,
    pages_per_page: [U64; MAX_TERMS],
    section_count: U16,
    zero_again: U16,
    sections: [RawSection; MAX_SECTIONS],
    zero_last: U32,
    cut_fixed_bytes: U64,
    cut_hart_bytes: U64,
    executor_pages: U64,
    later: [u8; 104],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawSection {
    owner: U32,
    version: U16,
    zero: U16,
}

const _: () = assert!(size_of::<RawManifest>() == MANIFEST_BYTES);

/// Why bytes after the magic word are not a readable manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The checksum is wrong, or the contents contradict each other.
    Damaged,
    /// Another version of the manifest.
    Version(u16),
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "a manifest's length and its number of sections fit into 16 bits"
)]
impl Parts<'_> {
    /// Encodes the manifest.
    ///
    /// # Panics
    ///
    /// If there are more than [`MAX_SECTIONS`] sections. In a constant this is a compile-time
    /// error.
    #[must_use]
    pub const fn encode(&self) -> [u8; MANIFEST_BYTES] {
        let mut bytes = self.encode_fields();
        let checksum = CRC.checksum(&bytes).to_le_bytes();
        let mut at = 0;
        while at < checksum.len() {
            bytes[CHECKSUM_AT + at] = checksum[at];
            at += 1;
        }
        bytes
    }

    /// All fields but the checksum, which is zero.
    const fn encode_fields(&self) -> [u8; MANIFEST_BYTES] {
        assert!(self.sections.len() <= MAX_SECTIONS, "too many sections");
        let data = self.layout.data;
        let raw = RawManifest {
            magic: MAGIC,
            version: U16::new(MANIFEST_VERSION),
            bytes: U16::new(MANIFEST_BYTES as u16),
            checksum: U32::ZERO,
            release: [
                U16::new(self.release[0]),
                U16::new(self.release[1]),
                U16::new(self.release[2]),
            ],
            zero: U16::ZERO,
            image: versions(self.formats.image),
            record: versions(self.formats.record),
            configuration: versions(self.formats.configuration),
            vault: versions(self.formats.vault),
            identity_rule: U16::new(self.layout.identity_rule),
            placement_rule: U16::new(self.layout.placement_rule),
            zero_too: U32::ZERO,
            loaded_start: U64::new(self.layout.loaded.start),
            loaded_bytes: U64::new(self.layout.loaded.end - self.layout.loaded.start),
            fixed_pages: U64::new(data.fixed_pages),
            hart_pages: U64::new(data.hart_pages),
            pages_per_page: [
                U64::new(data.pages_per_page[0]),
                U64::new(data.pages_per_page[1]),
                U64::new(data.pages_per_page[2]),
                U64::new(data.pages_per_page[3]),
            ],
            section_count: U16::new(self.sections.len() as u16),
            zero_again: U16::ZERO,
            sections: raw_sections(self.sections),
            zero_last: U32::ZERO,
            cut_fixed_bytes: U64::new(self.layout.cut.fixed_bytes),
            cut_hart_bytes: U64::new(self.layout.cut.hart_bytes),
            executor_pages: U64::new(self.layout.executor_pages),
            later: [0; 104],
        };
        zerocopy::transmute!(raw)
    }
}

const fn versions(versions: Versions) -> [U16; 2] {
    [U16::new(versions.oldest), U16::new(versions.newest)]
}

const fn raw_sections(sections: &[SectionVersion]) -> [RawSection; MAX_SECTIONS] {
    let mut raw = [RawSection {
        owner: U32::ZERO,
        version: U16::ZERO,
        zero: U16::ZERO,
    }; MAX_SECTIONS];
    let mut at = 0;
    while at < sections.len() {
        raw[at].owner = U32::new(sections[at].owner);
        raw[at].version = U16::new(sections[at].version);
        at += 1;
    }
    raw
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.release;
        let Formats {
            image,
            record,
            configuration,
            vault,
        } = self.formats;
        write!(
            f,
            "Poorwill {major}.{minor}.{patch}, image format {image}, slot record {record}, \
             configuration {configuration}, vault {vault}"
        )
    }
}

impl Manifest {
    /// Encodes the manifest as a firmware would contain it.
    #[must_use]
    pub fn encode(&self) -> [u8; MANIFEST_BYTES] {
        let parts = Parts {
            release: self.release,
            formats: self.formats,
            layout: self.layout,
            sections: &self.sections,
        };
        parts.encode()
    }

    /// Reads a manifest at the start of `bytes`; `None` if the magic word is missing or `bytes` is
    /// too short.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Result<Manifest, Unreadable>> {
        let bytes: &[u8; MANIFEST_BYTES] = bytes.first_chunk()?;
        let raw: &RawManifest = zerocopy::transmute_ref!(bytes);
        (raw.magic == MAGIC).then(|| raw.read(bytes))
    }
}

impl RawManifest {
    fn read(&self, bytes: &[u8; MANIFEST_BYTES]) -> Result<Manifest, Unreadable> {
        // Another version may have another length, so its checksum cannot be checked here. Only its
        // version number is used.
        if !(OLDEST_VERSION..=MANIFEST_VERSION).contains(&self.version.get()) {
            return Err(Unreadable::Version(self.version.get()));
        }
        let mut cleared = *bytes;
        cleared[CHECKSUM_AT..CHECKSUM_AT + size_of::<U32>()].fill(0);
        if CRC.checksum(&cleared) != self.checksum.get() {
            return Err(Unreadable::Damaged);
        }
        self.manifest().ok_or(Unreadable::Damaged)
    }

    /// `None`: the fields contradict each other, or fields of a later version are set.
    fn manifest(&self) -> Option<Manifest> {
        let zeros = [self.zero, self.zero_again].map(U16::get);
        let count = usize::from(self.section_count.get());
        let used = self.sections.get(..count)?;
        let unused = self.sections[count..].as_bytes();
        let start = self.loaded_start.get();
        let end = start.checked_add(self.loaded_bytes.get())?;
        let cut = CutRecord {
            fixed_bytes: self.cut_fixed_bytes.get(),
            hart_bytes: self.cut_hart_bytes.get(),
        };
        let is_clean = zeros == [0; 2]
            && self.zero_too.get() == 0
            && self.zero_last.get() == 0
            && (self.version.get() > 1 || cut == CutRecord::default())
            && (self.version.get() > 2 || self.executor_pages.get() == 0)
            && self.later == [0; 104]
            && usize::from(self.bytes.get()) == MANIFEST_BYTES
            && unused.iter().all(|byte| *byte == 0)
            && used.iter().all(|section| section.zero.get() == 0);
        is_clean.then_some(())?;
        Some(Manifest {
            release: self.release.map(U16::get),
            formats: Formats {
                image: read_versions(self.image)?,
                record: read_versions(self.record)?,
                configuration: read_versions(self.configuration)?,
                vault: read_versions(self.vault)?,
            },
            layout: MemoryLayout {
                loaded: PhysRange { start, end },
                placement_rule: self.placement_rule.get(),
                identity_rule: self.identity_rule.get(),
                data: DataRange {
                    fixed_pages: self.fixed_pages.get(),
                    hart_pages: self.hart_pages.get(),
                    pages_per_page: self.pages_per_page.map(U64::get),
                },
                cut,
                executor_pages: self.executor_pages.get(),
            },
            sections: used
                .iter()
                .map(|section| SectionVersion {
                    owner: section.owner.get(),
                    version: section.version.get(),
                })
                .collect(),
        })
    }
}

fn read_versions(raw: [U16; 2]) -> Option<Versions> {
    let [oldest, newest] = raw.map(U16::get);
    (oldest <= newest).then_some(Versions { oldest, newest })
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(&MAGIC, b"POORWILL FORMATS");
        assert_eq!(MANIFEST_VERSION, 3);
        assert_eq!(CHECKSUM_AT, offset_of!(RawManifest, checksum));
        let offsets = [
            (offset_of!(RawManifest, magic), 0),
            (offset_of!(RawManifest, version), 16),
            (offset_of!(RawManifest, bytes), 18),
            (offset_of!(RawManifest, checksum), 20),
            (offset_of!(RawManifest, release), 24),
            (offset_of!(RawManifest, zero), 30),
            (offset_of!(RawManifest, image), 32),
            (offset_of!(RawManifest, record), 36),
            (offset_of!(RawManifest, configuration), 40),
            (offset_of!(RawManifest, vault), 44),
            (offset_of!(RawManifest, identity_rule), 48),
            (offset_of!(RawManifest, placement_rule), 50),
            (offset_of!(RawManifest, zero_too), 52),
            (offset_of!(RawManifest, loaded_start), 56),
            (offset_of!(RawManifest, loaded_bytes), 64),
            (offset_of!(RawManifest, fixed_pages), 72),
            (offset_of!(RawManifest, hart_pages), 80),
            (offset_of!(RawManifest, pages_per_page), 88),
            (offset_of!(RawManifest, section_count), 120),
            (offset_of!(RawManifest, zero_again), 122),
            (offset_of!(RawManifest, sections), 124),
            (offset_of!(RawManifest, zero_last), 380),
            (offset_of!(RawManifest, cut_fixed_bytes), 384),
            (offset_of!(RawManifest, cut_hart_bytes), 392),
            (offset_of!(RawManifest, executor_pages), 400),
            (offset_of!(RawManifest, later), 408),
        ];
        for (number, (found, right)) in offsets.into_iter().enumerate() {
            assert_eq!(found, right, "line {number}");
        }
        assert_eq!(size_of::<RawSection>(), 8);
    }
}
