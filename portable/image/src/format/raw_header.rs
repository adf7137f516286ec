//! The bytes of an image's header.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Marks an image in every version of the format.
pub(super) const MAGIC: [u8; 8] = *b"POORWILL";

/// The index of the checksum's word, in every version.
pub(super) const CHECKSUM_WORD: usize = 2;

/// The bytes that the checksum covers: the header's whole page.
pub(super) const HEADER_BYTES: u32 = 4096;

/// The header's bytes in the slot. Magic, format, header length and checksum keep their
/// offsets in every version.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct RawHeader {
    pub(super) magic: [u8; 8],
    pub(super) format: U16,
    pub(super) zero: U16,
    pub(super) header_bytes: U32,
    pub(super) checksum: U64,
    pub(super) generation: U64,
    pub(super) saved_at_ns: U64,
    pub(super) os_pages: U64,
    pub(super) saved_pages: U64,
    pub(super) piece_pages: U64,
    pub(super) section_count: U32,
    pub(super) zero_too: U32,
    /// The hashes of memory, harts, ISA and device tree.
    pub(super) identity: [U64; 4],
    pub(super) sections: [RawSection; 6],
    /// 0: plain, 1: XChaCha20-Poly1305.
    pub(super) sealing: U32,
    /// The number of an [`ImageKind`](super::header::ImageKind).
    pub(super) kind: U32,
    pub(super) key: [u8; 16],
    pub(super) salt: [u8; 8],
    pub(super) tag: [u8; 16],
    /// Room for more sections and for compression; zero in this version.
    pub(super) later: [u8; 3704],
}

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct RawSection {
    pub(super) kind: U32,
    pub(super) zero: U32,
    pub(super) first_page: U64,
    pub(super) bytes: U64,
    pub(super) digest: [u8; 16],
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES as usize);

/// The number of sections, one of each kind.
pub(super) const SECTIONS: u32 = 6;

/// The values of `sealing`.
pub(super) const PLAIN: u32 = 0;
pub(super) const XCHACHA20_POLY1305: u32 = 1;

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!(&MAGIC, b"POORWILL");
        assert_eq!(CHECKSUM_WORD * 8, offset_of!(RawHeader, checksum));
        let offsets = [
            (offset_of!(RawHeader, magic), 0),
            (offset_of!(RawHeader, format), 8),
            (offset_of!(RawHeader, zero), 10),
            (offset_of!(RawHeader, header_bytes), 12),
            (offset_of!(RawHeader, checksum), 16),
            (offset_of!(RawHeader, generation), 24),
            (offset_of!(RawHeader, saved_at_ns), 32),
            (offset_of!(RawHeader, os_pages), 40),
            (offset_of!(RawHeader, saved_pages), 48),
            (offset_of!(RawHeader, piece_pages), 56),
            (offset_of!(RawHeader, section_count), 64),
            (offset_of!(RawHeader, zero_too), 68),
            (offset_of!(RawHeader, identity), 72),
            (offset_of!(RawHeader, sections), 104),
            (offset_of!(RawHeader, sealing), 344),
            (offset_of!(RawHeader, kind), 348),
            (offset_of!(RawHeader, key), 352),
            (offset_of!(RawHeader, salt), 368),
            (offset_of!(RawHeader, tag), 376),
            (offset_of!(RawHeader, later), 392),
            (size_of::<RawHeader>(), 4096),
            (offset_of!(RawSection, kind), 0),
            (offset_of!(RawSection, zero), 4),
            (offset_of!(RawSection, first_page), 8),
            (offset_of!(RawSection, bytes), 16),
            (offset_of!(RawSection, digest), 24),
            (size_of::<RawSection>(), 40),
        ];
        for (number, (found, right)) in offsets.into_iter().enumerate() {
            assert_eq!(found, right, "line {number}");
        }
    }
}
