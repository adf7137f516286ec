//! Manifests in files of any bytes.

use std::convert::Infallible;

use arrayvec::ArrayVec;
use poorwill_manifest::{
    CutRecord, DataRange, Formats, MANIFEST_BYTES, MAX_SECTIONS, MAX_TERMS, Manifest,
    ManifestError, MemoryLayout, SectionVersion, Versions, read,
};
use poorwill_memory::PhysRange;
use proptest::prelude::*;

fn versions() -> impl Strategy<Value = Versions> {
    (any::<u16>(), any::<u16>()).prop_map(|(one, other)| Versions {
        oldest: one.min(other),
        newest: one.max(other),
    })
}

prop_compose! {
    fn manifest()(
        release: [u16; 3],
        formats in [versions(), versions(), versions(), versions()],
        start in 0..u64::MAX / 2,
        bytes in 0..u64::MAX / 2,
        rules: [u16; 2],
        pages: [u64; 2],
        cut: [u64; 2],
        executor_pages: u64,
        pages_per_page: [u64; MAX_TERMS],
        sections in prop::collection::vec((any::<u32>(), any::<u16>()), 0..=MAX_SECTIONS),
    ) -> Manifest {
        let [image, record, configuration, vault] = formats;
        Manifest {
            release,
            formats: Formats { image, record, configuration, vault },
            layout: MemoryLayout {
                loaded: PhysRange::new(start, bytes),
                placement_rule: rules[0],
                identity_rule: rules[1],
                data: DataRange {
                    fixed_pages: pages[0],
                    hart_pages: pages[1],
                    pages_per_page,
                },
                cut: CutRecord {
                    fixed_bytes: cut[0],
                    hart_bytes: cut[1],
                },
                executor_pages,
            },
            sections: sections
                .into_iter()
                .map(|(owner, version)| SectionVersion { owner, version })
                .collect::<ArrayVec<_, MAX_SECTIONS>>(),
        }
    }
}

/// Makes the checksum fit.
fn seal(bytes: &mut [u8; MANIFEST_BYTES]) {
    bytes[20..24].fill(0);
    let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISO_HDLC).checksum(&*bytes);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
}

/// A manifest as if it had another version.
fn sealed(manifest: &Manifest, version: u16) -> [u8; MANIFEST_BYTES] {
    let mut bytes = manifest.encode();
    bytes[16..18].copy_from_slice(&version.to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// Reads `file` in pieces of these lengths, over and over.
fn found(file: &[u8], pieces: &[usize]) -> Result<Manifest, ManifestError<Infallible>> {
    let mut rest = file;
    let mut pieces = pieces.iter().cycle();
    read(|into| {
        let most = pieces.next().copied().unwrap_or(usize::MAX);
        let count = most.min(into.len()).min(rest.len());
        let (now, later) = rest.split_at(count);
        into[..count].copy_from_slice(now);
        rest = later;
        Ok(count)
    })
}

proptest! {
    #[test]
    fn it_is_found_wherever_it_lies(
        manifest in manifest(),
        before in 0usize..20_000,
        behind in 0usize..10_000,
        filler: u8,
        pieces in prop::collection::vec(1usize..9000, 1..5),
    ) {
        let file = [&vec![filler; before][..], &manifest.encode(), &vec![filler; behind]].concat();
        prop_assert_eq!(found(&file, &pieces), Ok(manifest));
    }

    #[test]
    fn a_flipped_bit_is_found_out(manifest in manifest(), bit in 0..MANIFEST_BYTES * 8) {
        let mut bytes = manifest.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(found(&bytes, &[4096]).is_err());
    }

    #[test]
    fn one_that_is_cut_short_is_none(manifest in manifest(), length in 0..MANIFEST_BYTES) {
        let found = found(&manifest.encode()[..length], &[4096]);
        prop_assert_eq!(found, Err(ManifestError::Missing));
    }

    /// A reader's own code has the magic word, too.
    #[test]
    fn a_whole_one_counts_behind_a_broken_one(
        manifest in manifest(),
        garbage in prop::collection::vec(any::<u8>(), 0..2000),
        piece in 1usize..9000,
    ) {
        let file = [b"POORWILL FORMATS", &garbage[..], &manifest.encode()].concat();
        prop_assert_eq!(found(&file, &[piece]), Ok(manifest));
    }

    /// Version 1 has zeros where a later one tells of cuts, and both that and version 2 where version
    /// 3 tells of the executor.
    #[test]
    fn an_earlier_one_is_read_and_says_nothing_of_later_things(manifest in manifest()) {
        for version in [2, 1] {
            let mut expected = manifest.clone();
            let with_all = sealed(&expected, version);
            expected.layout.executor_pages = 0;
            if version == 1 {
                expected.layout.cut = CutRecord::default();
            }
            let without = sealed(&expected, version);
            if without != with_all {
                prop_assert_eq!(found(&with_all, &[4096]), Err(ManifestError::Damaged));
            }
            prop_assert_eq!(found(&without, &[4096]), Ok(expected));
        }
    }

    /// The checksum is made to fit, so that the contents are looked at.
    #[test]
    fn no_contents_lead_astray(
        manifest in manifest(),
        at in 24..MANIFEST_BYTES,
        byte: u8,
        os_pages: u64,
    ) {
        let mut bytes = manifest.encode();
        bytes[at] = byte;
        seal(&mut bytes);
        match found(&bytes, &[4096]) {
            Ok(read) => {
                prop_assert_eq!(read.encode(), bytes);
                let _ = read.layout.data.bytes(os_pages, os_pages);
                let _ = read.to_string();
            }
            Err(error) => prop_assert_eq!(error, ManifestError::Damaged),
        }
    }
}

#[test]
fn another_version_is_named() {
    let mut bytes = [0; MANIFEST_BYTES];
    bytes[..16].copy_from_slice(b"POORWILL FORMATS");
    bytes[16] = 9;
    assert_eq!(
        found(&bytes, &[7]),
        Err(ManifestError::Version { found: 9 })
    );
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let failed = read(|_| Err("the disk is gone"));
    assert_eq!(failed, Err(ManifestError::File("the disk is gone")));
}
