//! Partition tables as disks have them, whole and damaged.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use gpt_disk_types::{
    Crc32, GptHeader, GptHeaderRevision, GptHeaderSignature, GptPartitionEntry, GptPartitionType,
    LbaLe, MasterBootRecord, U32Le, crc, guid,
};
use poorwill_medium::MediumError;
use poorwill_medium::fake::{Effect, FakeMedium, Fault, INJECTED_STATUS};
use poorwill_memory::Page;
use poorwill_store::{
    AREA_TYPE, AreaLocation, DiskChanged, DiskId, FINGERPRINTED_BYTES, GptError, MAX_AREAS,
    PartitionFingerprint, PartitionFingerprints, find_areas, fingerprint_partitions, unchanged,
};
use proptest::prelude::*;

const LINUX: GptPartitionType = GptPartitionType(guid!("0fc63daf-8483-4772-8e79-3d69d8477de4"));
const AREA: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

/// A disk to be.
#[derive(Clone)]
struct Disk {
    block: u64,
    blocks: u64,
    entry_bytes: u32,
    entries: u32,
    /// Number from 0, type, first and last block.
    partitions: Vec<(u32, GptPartitionType, u64, u64)>,
}

impl Disk {
    fn new(block: u64) -> Self {
        let partitions = vec![(0, LINUX, 2048, 4095), (2, AREA, 4097, 4999)];
        Disk {
            block,
            blocks: 8192,
            entry_bytes: 128,
            entries: 128,
            partitions,
        }
    }

    fn array(&self) -> Vec<u8> {
        let mut array = vec![0; (self.entry_bytes * self.entries) as usize];
        for (number, kind, first, last) in &self.partitions {
            let entry = GptPartitionEntry {
                partition_type_guid: *kind,
                starting_lba: LbaLe::from_u64(*first),
                ending_lba: LbaLe::from_u64(*last),
                ..Default::default()
            };
            let place = (self.entry_bytes * number) as usize;
            array[place..place + 128].copy_from_slice(bytemuck::bytes_of(&entry));
        }
        array
    }

    fn put_table(&self, bytes: &mut [u8], lba: u64, array_lba: u64) {
        let array = self.array();
        let crc = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(&array);
        let mut header = GptHeader {
            signature: GptHeaderSignature::EFI_COMPATIBLE_PARTITION_TABLE_HEADER,
            revision: GptHeaderRevision::VERSION_1_0,
            my_lba: LbaLe::from_u64(lba),
            partition_entry_lba: LbaLe::from_u64(array_lba),
            number_of_partition_entries: U32Le::from_u32(self.entries),
            size_of_partition_entry: U32Le::from_u32(self.entry_bytes),
            partition_entry_array_crc32: Crc32(U32Le::from_u32(crc)),
            ..Default::default()
        };
        header.update_header_crc32();
        let place = (array_lba * self.block) as usize;
        bytes[place..place + array.len()].copy_from_slice(&array);
        let place = (lba * self.block) as usize;
        bytes[place..place + 92].copy_from_slice(bytemuck::bytes_of(&header));
    }

    fn build(&self) -> FakeMedium {
        let mut disk = FakeMedium::new(self.block * self.blocks);
        disk.edit(|bytes| {
            let mbr = MasterBootRecord::protective_mbr(self.blocks);
            bytes[..512].copy_from_slice(bytemuck::bytes_of(&mbr));
            self.put_table(bytes, 1, 2);
            let array_blocks = self.array().len() as u64 / self.block + 1;
            self.put_table(bytes, self.blocks - 1, self.blocks - 1 - array_blocks);
        });
        disk
    }
}

fn find(disk: &mut FakeMedium, block: u64) -> Result<Vec<AreaLocation>, GptError> {
    let mut scratch = [Page::ZERO];
    find_areas(disk, block as u32, &mut scratch).map(|areas| areas.to_vec())
}

fn area(block: u64) -> AreaLocation {
    AreaLocation {
        start: 4097 * block,
        length: 903 * block,
        partition: 3,
    }
}

#[test]
fn finds_areas_with_either_block_size() {
    assert_eq!(AREA.to_string(), AREA_TYPE);
    for block in [512, 4096] {
        let mut disk = Disk::new(block).build();
        assert_eq!(find(&mut disk, block), Ok(vec![area(block)]));
    }
    assert_eq!(
        find(&mut Disk::new(512).build(), 1024),
        Err(GptError::BlockSize(1024))
    );
}

#[test]
fn takes_entries_of_every_legal_size() {
    for block in [512, 4096] {
        for (entry_bytes, entries) in [
            (128, 128),
            (256, 200),
            (1024, 7),
            (4096, 5),
            (8192, 4),
            (128, 4),
        ] {
            let mut disk = Disk {
                entry_bytes,
                entries,
                ..Disk::new(block)
            };
            assert_eq!(
                find(&mut disk.build(), block),
                Ok(vec![area(block)]),
                "{entry_bytes} {entries}"
            );
            disk.partitions.push((entries - 1, AREA, 5000, 5100));
            assert_eq!(
                find(&mut disk.build(), block).unwrap().len(),
                2,
                "the last entry counts"
            );
        }
    }
}

#[test]
fn the_backup_stands_in_for_a_damaged_table() {
    for block in [512, 4096] {
        for place in [block, block + 50, 2 * block + 5, 2 * block + 128 * 127] {
            let mut disk = Disk::new(block).build();
            disk.flip(place, 0);
            assert_eq!(
                find(&mut disk, block),
                Ok(vec![area(block)]),
                "byte {place}"
            );
            let backup = 8191 * block + 50;
            disk.flip(backup, 0);
            let found = find(&mut disk, block);
            assert_eq!(found, Err(GptError::Damaged), "byte {place}");
        }
    }
}

#[test]
fn every_single_bit_of_header_and_entry_is_checked() {
    let mut disk = Disk::new(512).build();
    // Without the backup, so that damage shows.
    disk.flip(8191 * 512, 0);
    for byte in (512..512 + 92).chain(1024 + 256..1024 + 384) {
        for bit in 0..8 {
            disk.flip(byte, bit);
            let found = find(&mut disk, 512);
            let unsigned = byte < 512 + 8 && found == Ok(vec![]);
            assert!(
                unsigned || found == Err(GptError::Damaged),
                "byte {byte}: {found:?}"
            );
            disk.flip(byte, bit);
        }
    }
}

#[test]
fn a_disk_without_gpt_has_no_areas() {
    for bytes in [0, 4096, 1 << 20] {
        assert_eq!(find(&mut FakeMedium::new(bytes), 512), Ok(vec![]));
    }
    let mut disk = Disk::new(512).build();
    disk.edit(|bytes| bytes[450] = 0x83);
    assert_eq!(
        find(&mut disk, 512),
        Ok(vec![]),
        "an old table under a newer MBR"
    );
    let none = Disk {
        partitions: vec![],
        ..Disk::new(512)
    };
    assert_eq!(find(&mut none.build(), 512), Ok(vec![]));
}

#[test]
fn areas_end_with_the_disk() {
    for (first, last) in [
        (4000, 8192),
        (8192, 9000),
        (u64::MAX, u64::MAX),
        (5000, 4000),
        (0, u64::MAX),
    ] {
        let disk = Disk {
            partitions: vec![(5, AREA, first, last)],
            ..Disk::new(512)
        };
        assert_eq!(find(&mut disk.build(), 512), Err(GptError::BeyondDisk(6)));
    }
    let disk = Disk {
        partitions: vec![(0, LINUX, 0, u64::MAX)],
        ..Disk::new(512)
    };
    assert_eq!(
        find(&mut disk.build(), 512),
        Ok(vec![]),
        "others are not our business"
    );
}

#[test]
fn too_many_areas_are_refused() {
    let partitions = |count| {
        (0..count)
            .map(|n| (n, AREA, 100 + u64::from(n), 100 + u64::from(n)))
            .collect()
    };
    let most = Disk {
        partitions: partitions(MAX_AREAS as u32),
        ..Disk::new(512)
    };
    assert_eq!(find(&mut most.build(), 512).unwrap().len(), MAX_AREAS);
    let more = Disk {
        partitions: partitions(MAX_AREAS as u32 + 1),
        ..Disk::new(512)
    };
    assert_eq!(find(&mut more.build(), 512), Err(GptError::TooMany));
}

#[test]
fn an_array_that_cannot_be_is_not_read() {
    for (entries, entry_bytes) in [
        (u32::MAX, 128),
        (u32::MAX, 1 << 31),
        (9000, 128),
        (128, 0),
        (128, 100),
    ] {
        let mut disk = Disk::new(512).build();
        for lba in [1, 8191] {
            disk.edit(|bytes| {
                let place = lba * 512..lba * 512 + 92;
                let mut header: GptHeader = *bytemuck::from_bytes(&bytes[place.clone()]);
                header.number_of_partition_entries = U32Le::from_u32(entries);
                header.size_of_partition_entry = U32Le::from_u32(entry_bytes);
                header.update_header_crc32();
                bytes[place].copy_from_slice(bytemuck::bytes_of(&header));
            });
        }
        disk.restart();
        assert_eq!(find(&mut disk, 512), Err(GptError::Damaged));
        assert_eq!(disk.log().len(), 3, "the MBR and the two headers");
    }
}

#[test]
fn a_failing_disk_is_named() {
    for n in 0..3 {
        let mut disk = Disk::new(512).build();
        disk.inject(Fault::nth(n, Effect::Fail));
        let found = find(&mut disk, 512);
        let named = matches!(found, Err(GptError::Medium(MediumError::Device { status, .. })) if status == INJECTED_STATUS);
        assert!(named, "{found:?}");
    }
}

proptest! {
    #[test]
    fn no_table_leads_astray(
        (entries, entry_bytes, first, last) in any::<(u32, u32, u64, u64)>(),
        array_lba in prop_oneof![0u64..9000, any::<u64>()],
        shift in 0u32..8,
    ) {
        let table = Disk { blocks: 256, partitions: vec![(3, AREA, first, last)], ..Disk::new(512) };
        let mut disk = table.build();
        disk.edit(|bytes| {
            let mut header: GptHeader = *bytemuck::from_bytes(&bytes[512..604]);
            header.number_of_partition_entries = U32Le::from_u32(entries >> (4 * shift));
            header.size_of_partition_entry = U32Le::from_u32(if shift < 4 { 128 << shift } else { entry_bytes });
            header.partition_entry_lba = LbaLe::from_u64(array_lba);
            header.update_header_crc32();
            bytes[512..604].copy_from_slice(bytemuck::bytes_of(&header));
        });
        let _ = find(&mut disk, 512);
    }
}

fn fingerprints(disk: &mut FakeMedium, block: u64) -> Result<PartitionFingerprints, GptError> {
    let mut fingerprints = PartitionFingerprints::new();
    let mut scratch = [Page::ZERO];
    fingerprint_partitions(
        disk,
        DiskId::MEMORY,
        block as u32,
        &mut scratch,
        &mut fingerprints,
    )
    .map(|()| fingerprints)
}

fn all_unchanged(
    then: &[PartitionFingerprint],
    now: &[PartitionFingerprint],
) -> Result<(), DiskChanged> {
    (then.iter()).try_for_each(|then| unchanged(then.digest(), now).map(|_| ()))
}

#[test]
fn a_partition_that_was_written_to_is_told() {
    for block in [512, 4096] {
        let mut disk = Disk::new(block).build();
        let then = fingerprints(&mut disk, block).unwrap();
        assert_eq!(then.len(), 1, "the sleep area is no such partition");
        let start = 2048 * block;
        // In front of it and behind what is looked at; in the sleep area.
        for byte in [start - 1, start + FINGERPRINTED_BYTES, 4097 * block] {
            disk.flip(byte, 0);
        }
        let now = fingerprints(&mut disk, block).unwrap();
        assert_eq!(all_unchanged(&then, &now), Ok(()));
        for byte in [start, start + 1024, start + FINGERPRINTED_BYTES - 1] {
            disk.flip(byte, 7);
            let now = fingerprints(&mut disk, block).unwrap();
            let told = all_unchanged(&then, &now).unwrap_err();
            assert!(matches!(told, DiskChanged::Written(_)), "{told:?}");
            assert_eq!(told.to_string(), "partition 1 has been written to since");
            disk.flip(byte, 7);
        }
    }
}

#[test]
fn a_partition_that_has_moved_or_gone_is_told() {
    let old = Disk::new(512);
    let then = fingerprints(&mut old.build(), 512).unwrap();
    let mut moved = old.clone();
    moved.partitions[0].2 += 8;
    let now = fingerprints(&mut moved.build(), 512).unwrap();
    assert!(matches!(
        all_unchanged(&then, &now),
        Err(DiskChanged::Written(_))
    ));
    let mut gone = old.clone();
    gone.partitions.remove(0);
    let now = fingerprints(&mut gone.build(), 512).unwrap();
    assert!(matches!(
        all_unchanged(&then, &now),
        Err(DiskChanged::Gone(_))
    ));
    let mut more = old;
    more.partitions.push((7, LINUX, 5000, 5001));
    let now = fingerprints(&mut more.build(), 512).unwrap();
    assert_eq!(now.len(), 2);
    assert_eq!(all_unchanged(&then, &now), Ok(()));
}

#[test]
fn more_partitions_than_can_be_looked_after_are_refused() {
    let mut disk = Disk::new(512);
    disk.partitions = (0..33)
        .map(|n| (n, LINUX, 2048 + u64::from(n), 2048 + u64::from(n)))
        .collect();
    assert_eq!(
        fingerprints(&mut disk.build(), 512),
        Err(GptError::TooManyOthers)
    );
    assert_eq!(
        find(&mut disk.build(), 512),
        Ok(vec![]),
        "it may sleep all the same"
    );
}
