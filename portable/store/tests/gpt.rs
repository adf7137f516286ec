//! Partition tables as disks have them, whole and damaged.

#![allow(clippy::cast_possible_truncation, reason = "small numbers")]

use gpt_disk_types::{
    Crc32, GptHeader, GptHeaderRevision, GptHeaderSignature, GptPartitionEntry, GptPartitionType,
    LbaLe, MasterBootRecord, U32Le, crc, guid,
};
use poorwill_medium::MediumError;
use poorwill_medium::fake::{Command, Effect, FakeMedium, Fault, INJECTED_STATUS};
use poorwill_memory::Page;
use poorwill_store::{
    AREA_TYPE, AreaLocation, Content, DiskChanged, DiskId, FINGERPRINTED_BYTES, GptError,
    MAX_AREAS, PartitionFingerprint, PartitionFingerprints, find_areas, fingerprint_partitions,
    has_table, unchanged,
};
use proptest::prelude::*;

const LINUX: GptPartitionType = GptPartitionType(guid!("0fc63daf-8483-4772-8e79-3d69d8477de4"));
const AREA: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

/// A disk to be.
#[derive(Clone)]
struct Disk {
    block: u64,
    blocks: u64,
    entries: u32,
    /// The first block of the entry array.
    array_lba: u64,
    /// First and last usable block, if they are not the usual ones.
    usable: Option<(u64, u64)>,
    /// Number from 0, type, first and last block.
    partitions: Vec<(u32, GptPartitionType, u64, u64)>,
}

impl Disk {
    fn new(block: u64) -> Self {
        let partitions = vec![(0, LINUX, 2048, 4095), (2, AREA, 4097, 4999)];
        Disk {
            block,
            blocks: 8192,
            entries: 128,
            array_lba: 2,
            usable: None,
            partitions,
        }
    }

    /// A disk on which only the area's place is given, with all blocks usable.
    fn with_area(block: u64, first: u64, last: u64) -> Self {
        let disk = Disk::new(block);
        Disk {
            partitions: vec![(2, AREA, first, last)],
            usable: Some((0, disk.blocks - 1)),
            ..disk
        }
    }

    fn and(mut self, number: u32, kind: GptPartitionType, first: u64, last: u64) -> Self {
        self.partitions.push((number, kind, first, last));
        self
    }

    fn last(&self) -> u64 {
        self.blocks - 1
    }

    fn array_blocks(&self) -> u64 {
        (128 * u64::from(self.entries)).div_ceil(self.block)
    }

    fn usable(&self) -> (u64, u64) {
        let first = self.array_lba + self.array_blocks();
        let last = self.last() - 1 - self.array_blocks();
        self.usable.unwrap_or((first, last))
    }

    fn array(&self) -> Vec<u8> {
        let mut array = vec![0; 128 * self.entries as usize];
        for (number, kind, first, last) in &self.partitions {
            let entry = GptPartitionEntry {
                partition_type_guid: *kind,
                starting_lba: LbaLe::from_u64(*first),
                ending_lba: LbaLe::from_u64(*last),
                ..Default::default()
            };
            let place = 128 * *number as usize;
            array[place..place + 128].copy_from_slice(bytemuck::bytes_of(&entry));
        }
        array
    }

    fn put_table(&self, bytes: &mut [u8], lba: u64, alternate: u64, array_lba: u64) {
        let array = self.array();
        let crc = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(&array);
        let (first, last) = self.usable();
        let mut header = GptHeader {
            signature: GptHeaderSignature::EFI_COMPATIBLE_PARTITION_TABLE_HEADER,
            revision: GptHeaderRevision::VERSION_1_0,
            my_lba: LbaLe::from_u64(lba),
            alternate_lba: LbaLe::from_u64(alternate),
            first_usable_lba: LbaLe::from_u64(first),
            last_usable_lba: LbaLe::from_u64(last),
            partition_entry_lba: LbaLe::from_u64(array_lba),
            number_of_partition_entries: U32Le::from_u32(self.entries),
            size_of_partition_entry: U32Le::from_u32(128),
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
            let last = self.last();
            self.put_table(bytes, last, 1, last - self.array_blocks());
            self.put_table(bytes, 1, last, self.array_lba);
        });
        disk
    }

    fn find(&self) -> Result<Vec<AreaLocation>, GptError> {
        find(&mut self.build(), self.block)
    }
}

/// Changes a header, and corrects its checksum.
fn edit_header(disk: &mut FakeMedium, block: u64, lba: u64, edit: impl FnOnce(&mut GptHeader)) {
    disk.edit(|bytes| {
        let place = (lba * block) as usize..(lba * block) as usize + 92;
        let mut header: GptHeader = *bytemuck::from_bytes(&bytes[place.clone()]);
        edit(&mut header);
        header.update_header_crc32();
        bytes[place].copy_from_slice(bytemuck::bytes_of(&header));
    });
}

fn put(disk: &mut FakeMedium, at: u64, mark: &[u8]) {
    disk.edit(|bytes| bytes[at as usize..][..mark.len()].copy_from_slice(mark));
}

fn find(disk: &mut FakeMedium, block: u64) -> Result<Vec<AreaLocation>, GptError> {
    let mut scratch = [Page::ZERO];
    let found = find_areas(disk, block as u32, &mut scratch).map(|areas| areas.to_vec());
    assert!(!disk.log().contains(&Command::Write), "the search writes");
    found
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
fn takes_arrays_of_every_length() {
    for block in [512, 4096] {
        for entries in [3, 4, 5, 128, 200, 255] {
            let disk = Disk {
                entries,
                ..Disk::new(block)
            };
            assert_eq!(disk.find(), Ok(vec![area(block)]), "{entries}");
            let disk = disk.and(entries - 1, AREA, 5000, 5100);
            let last = if entries == 3 { 1 } else { 2 };
            assert_eq!(disk.find().unwrap().len(), last, "the last entry counts");
        }
    }
    let found = |entries| {
        Disk {
            entries,
            ..Disk::new(4096)
        }
        .find()
    };
    assert_eq!(found(8192), Ok(vec![area(4096)]));
    assert_eq!(found(8193), Err(GptError::Entries(8193)));
}

#[test]
fn linux_shows_255_partitions() {
    let disk = |number| Disk {
        entries: 300,
        partitions: vec![(number, AREA, 5000, 5100)],
        ..Disk::new(512)
    };
    assert_eq!(disk(254).find().unwrap()[0].partition, 255);
    assert_eq!(disk(255).find(), Err(GptError::Unseen(256)));
}

#[test]
fn a_backup_alone_is_refused_by_name() {
    for block in [512, 4096] {
        // In the header: signature, checksum, a reserved byte. In the array: used, unused.
        let header = [0, 17, 50];
        let array = [5, 128 * 2 + 40, 128 * 127];
        let places = header.map(|at| block + at).into_iter();
        for place in places.chain(array.map(|at| 2 * block + at)) {
            let mut disk = Disk::new(block).build();
            disk.flip(place, 0);
            assert_eq!(
                find(&mut disk, block),
                Err(GptError::OnlyBackup(3)),
                "byte {place}"
            );
            assert_eq!(
                has_table(&mut disk, block as u32, &mut [Page::ZERO]),
                Ok(false)
            );
            disk.flip(8191 * block + 50, 0);
            let found = find(&mut disk, block);
            assert_eq!(found, Err(GptError::Damaged), "byte {place}");
        }
    }
    // `mkswap` keeps the first KiB and writes the next three: the array's in 512-byte blocks.
    let mut disk = Disk::new(512).build();
    disk.edit(|bytes| bytes[1024..4096].fill(0));
    put(&mut disk, 4086, b"SWAPSPACE2");
    assert_eq!(find(&mut disk, 512), Err(GptError::OnlyBackup(3)));
}

#[test]
fn a_backup_without_an_area_is_an_old_disk_s() {
    let table = Disk {
        partitions: vec![(0, LINUX, 2048, 4095)],
        ..Disk::new(512)
    };
    for damage in [512, 1024] {
        let mut disk = table.build();
        disk.flip(damage, 0);
        assert_eq!(find(&mut disk, 512), Ok(vec![]));
        assert_eq!(
            fingerprints(&mut disk, 512),
            Ok(PartitionFingerprints::new())
        );
    }
}

#[test]
fn linux_s_rules_for_a_header_are_kept() {
    type Edit = fn(&mut GptHeader);
    let rules: [(Edit, GptError); 9] = [
        (
            |header| header.my_lba = LbaLe::from_u64(2),
            GptError::OnlyBackup(3),
        ),
        (
            |header| header.header_size = U32Le::from_u32(91),
            GptError::OnlyBackup(3),
        ),
        (
            |header| header.header_size = U32Le::from_u32(513),
            GptError::OnlyBackup(3),
        ),
        (
            |header| header.first_usable_lba = LbaLe::from_u64(8159),
            GptError::OnlyBackup(3),
        ),
        (
            |header| header.last_usable_lba = LbaLe::from_u64(8192),
            GptError::LongerDisk(3),
        ),
        (
            |header| header.number_of_partition_entries = U32Le::from_u32(0),
            GptError::OnlyBackup(3),
        ),
        (
            |header| header.number_of_partition_entries = U32Le::from_u32(127),
            GptError::OnlyBackup(3),
        ),
        (
            |header| header.size_of_partition_entry = U32Le::from_u32(256),
            GptError::EntrySize(256),
        ),
        (
            |header| header.partition_entry_lba = LbaLe::from_u64(8170),
            GptError::OnlyBackup(3),
        ),
    ];
    for (number, (edit, error)) in rules.into_iter().enumerate() {
        let mut disk = Disk::new(512).build();
        edit_header(&mut disk, 512, 1, edit);
        assert_eq!(find(&mut disk, 512), Err(error), "rule {number}");
        if error != GptError::EntrySize(256) {
            assert_eq!(
                fingerprints(&mut disk, 512),
                Ok(PartitionFingerprints::new())
            );
        }
    }
    let mut disk = Disk::new(512).build();
    edit_header(&mut disk, 512, 1, |header| {
        header.first_usable_lba = LbaLe::from_u64(0)
    });
    assert_eq!(find(&mut disk, 512), Ok(vec![area(512)]));
}

#[test]
fn a_longer_header_has_a_longer_checksum() {
    let mut disk = Disk::new(512).build();
    disk.edit(|bytes| {
        let header = &mut bytes[512..1024];
        header[12..16].copy_from_slice(&512u32.to_le_bytes());
        header[16..20].fill(0);
        header[500] = 7;
        let crc = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(header);
        header[16..20].copy_from_slice(&crc.to_le_bytes());
    });
    assert_eq!(find(&mut disk, 512), Ok(vec![area(512)]));
    disk.flip(512 + 500, 0);
    assert_eq!(find(&mut disk, 512), Err(GptError::OnlyBackup(3)));
}

#[test]
fn only_a_protective_mbr_announces_a_table() {
    for (at, value) in [(450, 0xef), (454, 2), (510, 0)] {
        let mut disk = Disk::new(512).build();
        disk.edit(|bytes| bytes[at] = value);
        assert_eq!(find(&mut disk, 512), Ok(vec![]));
        assert_eq!(
            fingerprints(&mut disk, 512),
            Ok(PartitionFingerprints::new())
        );
        // As the third record it counts, too.
        disk.edit(|bytes| {
            let mbr = Disk::new(512).build();
            bytes[446 + 32..][..16].copy_from_slice(&mbr.bytes()[446..][..16]);
            bytes[510] = 0x55;
            bytes[446..][..16].fill(0);
        });
        assert_eq!(find(&mut disk, 512), Ok(vec![area(512)]));
    }
}

#[test]
fn an_area_apart_from_all_others_is_found() {
    for block in [512, 4096] {
        let disk = Disk::with_area(block, 4000, 4999);
        let touching = disk.and(0, LINUX, 3000, 3999).and(1, AREA, 5000, 5100);
        assert_eq!(touching.find().unwrap().len(), 2);
    }
}

#[test]
fn an_area_that_overlaps_another_partition_is_refused() {
    for block in [512, 4096] {
        for (first, last) in [
            (3000, 4000),
            (4999, 6000),
            (4500, 4600),
            (3000, 6000),
            (4000, 4999),
        ] {
            for number in [0, 3, 127] {
                let disk = Disk::with_area(block, 4000, 4999);
                let overlap = GptError::Overlap {
                    area: 3,
                    other: number + 1,
                };
                let beside = disk.clone().and(number, LINUX, first, last);
                assert_eq!(beside.find(), Err(overlap), "{first} {last} {number}");
                let of_areas = disk.and(number, AREA, first, last).find();
                assert!(
                    matches!(of_areas, Err(GptError::Overlap { .. })),
                    "{of_areas:?}"
                );
            }
        }
    }
}

#[test]
fn partitions_that_are_not_listed_overlap_as_well() {
    let overlap = |other| Err(GptError::Overlap { area: 3, other });
    let disk = Disk {
        entries: 300,
        ..Disk::with_area(512, 4000, 4999)
    };
    let mut many = disk.clone();
    for number in 3..60 {
        many = many.and(
            number,
            LINUX,
            5000 + u64::from(number),
            5000 + u64::from(number),
        );
    }
    assert_eq!(many.find().unwrap().len(), 1);
    assert_eq!(many.and(70, LINUX, 4999, 5000).find(), overlap(71));
    // Linux does not show it, since its number is too high or it ends after the disk.
    assert_eq!(
        disk.clone().and(299, LINUX, 3000, 4000).find(),
        overlap(300)
    );
    assert_eq!(
        disk.clone().and(5, LINUX, 4000, u64::MAX).find(),
        overlap(6)
    );
    // Linux's length of it is nearly 2^64.
    assert_eq!(
        disk.and(5, LINUX, 6000, 5998).find(),
        Err(GptError::Reversed(6))
    );
}

#[test]
fn an_area_outside_of_the_usable_blocks_is_refused() {
    for block in [512, 4096] {
        let disk = |first, last| Disk {
            usable: Some((4000, 4999)),
            ..Disk::with_area(block, first, last)
        };
        for (first, last) in [(4000, 4999), (4000, 4000), (4999, 4999)] {
            assert_eq!(disk(first, last).find().unwrap().len(), 1);
        }
        for (first, last) in [
            (3999, 4500),
            (4500, 5000),
            (3000, 3100),
            (6000, 6100),
            (3999, 5000),
        ] {
            let refused = GptError::NotUsable {
                area: 3,
                first: 4000,
                last: 4999,
            };
            assert_eq!(disk(first, last).find(), Err(refused), "{first} {last}");
        }
    }
}

#[test]
fn an_area_on_the_table_is_refused_whatever_is_usable() {
    for block in [512, 4096] {
        let free = Disk::with_area(block, 100, 200);
        let (array, last) = (free.array_blocks(), free.last());
        let (first_free, last_free) = (2 + array, last - array - 1);
        let disk = |first, last| Disk::with_area(block, first, last).find();
        assert_eq!(disk(first_free, last_free).unwrap().len(), 1);
        for (first, last) in [
            (0, 200),
            (1, 200),
            (1, 1),
            (2, 2),
            (first_free - 1, 200),
            (100, last_free + 1),
            (last, last),
            (last - 1, last - 1),
            (0, last),
        ] {
            assert_eq!(
                disk(first, last),
                Err(GptError::OnTable(3)),
                "{first} {last}"
            );
        }
    }
}

#[test]
fn the_table_is_where_the_headers_say() {
    // The array is in the middle of the disk.
    let disk = |first, last| Disk {
        array_lba: 4000,
        ..Disk::with_area(512, first, last)
    };
    assert_eq!(disk(4032, 4100).find().unwrap().len(), 1);
    assert_eq!(disk(2, 3999).find().unwrap().len(), 1);
    assert_eq!(disk(4031, 4100).find(), Err(GptError::OnTable(3)));
    assert_eq!(disk(2, 4000).find(), Err(GptError::OnTable(3)));
    // The backup is before the end, where the primary says. Only its header or its place counts.
    for (lba, array, is_lost) in [(6000, 5968, false), (6000, 5968, true), (6000, 3000, false)] {
        let table = Disk::with_area(512, 100, 200);
        let on = |first, last| {
            let table = Disk::with_area(512, first, last);
            let mut disk = table.build();
            disk.edit(|bytes| {
                bytes[(table.last() * 512) as usize..].fill(0);
                table.put_table(bytes, lba, 1, array);
                table.put_table(bytes, 1, lba, 2);
                if is_lost {
                    bytes[lba as usize * 512..][..512].fill(0);
                }
            });
            find(&mut disk, 512)
        };
        assert_eq!(on(100, 200).unwrap().len(), 1);
        for block in [lba, lba - 1, lba - table.array_blocks(), array, array + 31] {
            assert_eq!(on(block, block), Err(GptError::OnTable(3)), "{block}");
        }
    }
    // The primary names another block than the last, and yet a backup is there.
    let mut disk = Disk::with_area(512, 8191, 8191).build();
    edit_header(&mut disk, 512, 1, |header| {
        header.alternate_lba = LbaLe::from_u64(7000)
    });
    assert_eq!(find(&mut disk, 512), Err(GptError::OnTable(3)));
}

#[test]
fn partitions_of_a_hybrid_mbr_are_those_of_other_systems() {
    let hybrid = |kind: u8, first: u32, length: u32| {
        let mut disk = Disk::new(512).build();
        disk.edit(|bytes| {
            let record = &mut bytes[446 + 16..][..16];
            record[4] = kind;
            record[8..12].copy_from_slice(&first.to_le_bytes());
            record[12..].copy_from_slice(&length.to_le_bytes());
        });
        find(&mut disk, 512)
    };
    let refused = Err(GptError::OverlapMbr { area: 3, record: 2 });
    for (first, length) in [(1, 8191), (4000, 98), (4999, 1), (4097, 902), (1, u32::MAX)] {
        assert_eq!(hybrid(0x0c, first, length), refused, "{first} {length}");
        assert_eq!(hybrid(0, first, length), Ok(vec![area(512)]), "unused");
        assert_eq!(
            hybrid(0xee, first, length),
            Ok(vec![area(512)]),
            "protective"
        );
    }
    for (first, length) in [(2048, 2048), (4097, 903), (5000, 1), (4096, 1), (4500, 0)] {
        assert_eq!(
            hybrid(0x83, first, length),
            Ok(vec![area(512)]),
            "{first} {length}"
        );
    }
}

fn whole(content: Content) -> Result<Vec<AreaLocation>, GptError> {
    Err(GptError::WholeDisk { area: 3, content })
}

#[test]
fn a_disk_that_is_swap_or_lvm_as_a_whole_is_refused() {
    // In blocks of 4096 bytes, `mkswap` writes to block 0 only, and the table stays valid.
    for (at, mark, content) in [
        (4086, &b"SWAPSPACE2"[..], Content::Swap),
        (4086, b"SWAP-SPACE", Content::Swap),
        (4086, b"S1SUSPEND\0", Content::Swap),
        (0x200, b"LABELONE", Content::Lvm),
        (0x400, b"LABELONE", Content::Lvm),
        (0x600, b"LABELONE", Content::Lvm),
    ] {
        let mut disk = Disk::new(4096).build();
        put(&mut disk, at, mark);
        assert_eq!(find(&mut disk, 4096), whole(content), "{at}");
        // Linux shows the partitions nevertheless.
        assert_eq!(fingerprints(&mut disk, 4096).unwrap().len(), 1);
    }
    // These contents overwrite the table when they are made, so their remains are older.
    for (at, mark) in [
        (0, &b"XFSB"[..]),
        (3, b"NTFS    "),
        (0x52, b"FAT32   "),
        (0x438, b"\x53\xef"),
    ] {
        let mut disk = Disk::new(4096).build();
        put(&mut disk, at, mark);
        assert_eq!(find(&mut disk, 4096), Ok(vec![area(4096)]), "{at}");
    }
}

#[test]
fn a_table_s_own_bytes_are_no_other_content() {
    // An area's name, of which the last characters are those of swap.
    let mut disk = Disk::new(512).build();
    let entry = (4086 - 1024) / 128 * 128 + 1024;
    assert!(4086 + 10 <= entry + 128);
    put(&mut disk, 4086, b"SWAPSPACE2");
    disk.edit(|bytes| {
        let crc = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(&bytes[1024..][..16384]);
        bytes[512 + 88..512 + 92].copy_from_slice(&crc.to_le_bytes());
    });
    edit_header(&mut disk, 512, 1, |_| {});
    assert_eq!(find(&mut disk, 512), Ok(vec![area(512)]));
}

#[test]
fn an_array_elsewhere_leaves_room_for_other_contents() {
    let table = Disk {
        array_lba: 64,
        ..Disk::new(512)
    };
    for (at, mark, content) in [
        (4086, &b"SWAPSPACE2"[..], Content::Swap),
        (0x400, b"LABELONE", Content::Lvm),
        (0x1000, b"\xfc\x4e\x2b\xa9", Content::Raid),
    ] {
        let mut disk = table.build();
        put(&mut disk, at, mark);
        assert_eq!(find(&mut disk, 512), whole(content), "{at}");
        // From the first usable block on, the bytes are a partition's.
        let usable = Some((2, 8000));
        let mut disk = Disk {
            usable,
            ..table.clone()
        }
        .build();
        put(&mut disk, at, mark);
        assert_eq!(find(&mut disk, 512), Ok(vec![area(512)]), "{at}");
    }
}

/// A software RAID's superblock of version 1.
fn raid_1(super_offset: u64) -> Vec<u8> {
    let mut superblock = vec![0; 256];
    superblock[..4].copy_from_slice(b"\xfc\x4e\x2b\xa9");
    superblock[4] = 1;
    superblock[144..152].copy_from_slice(&super_offset.to_le_bytes());
    superblock
}

/// The same of version 0.90.
fn raid_0_90(kib: u32) -> Vec<u8> {
    let words = [0xa92b_4efc, 0, 90, 0, 0, 0, 0, 1, kib];
    words.map(u32::to_le_bytes).concat()
}

#[test]
fn a_member_of_a_raid_with_its_superblock_at_the_end_is_refused() {
    for block in [512, 4096] {
        let bytes = 8192 * block;
        // It takes the place of the backup.
        let at = bytes - 8192;
        let mut disk = Disk::new(block).build();
        put(&mut disk, at, &raid_1(at / 512));
        assert_eq!(find(&mut disk, block), whole(Content::Raid));
        let mut disk = Disk::new(block).build();
        put(&mut disk, at, &raid_1(at / 512 - 2048));
        assert_eq!(
            find(&mut disk, block),
            Ok(vec![area(block)]),
            "a partition's"
        );

        let at = bytes - 65536;
        let kib = u32::try_from(at / 1024).unwrap();
        let mut disk = Disk::new(block).build();
        put(&mut disk, at, &raid_0_90(kib));
        assert_eq!(find(&mut disk, block), whole(Content::Raid));
        // A partition around it, with the data before it or without.
        let first = at / block - 100;
        let within = Disk::new(block).and(7, LINUX, first, at / block);
        for (kib, is_disk_s) in [(100 * block / 1024, false), (100 * block / 1024 + 1, true)] {
            let mut disk = within.build();
            put(&mut disk, at, &raid_0_90(kib as u32));
            let found = find(&mut disk, block);
            let expected = if is_disk_s {
                whole(Content::Raid)
            } else {
                Ok(vec![area(block)])
            };
            assert_eq!(found, expected, "{kib}");
        }
    }
}

#[test]
fn every_single_bit_of_header_and_entry_is_checked() {
    for has_backup in [true, false] {
        let mut disk = Disk::new(512).build();
        if !has_backup {
            disk.flip(8191 * 512, 0);
        }
        for byte in (512..512 + 92).chain(1024 + 256..1024 + 384) {
            for bit in 0..8 {
                disk.flip(byte, bit);
                let found = find(&mut disk, 512);
                let unsigned = byte < 512 + 8 && found == Ok(vec![]);
                let error = match has_backup {
                    true => GptError::OnlyBackup(3),
                    false => GptError::Damaged,
                };
                assert!(
                    (!has_backup && unsigned) || found == Err(error),
                    "byte {byte}: {found:?}"
                );
                disk.flip(byte, bit);
            }
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
    for (first, last, error) in [
        (4000, 8192, GptError::BeyondDisk(6)),
        (8192, 9000, GptError::BeyondDisk(6)),
        (u64::MAX, u64::MAX, GptError::BeyondDisk(6)),
        (5000, 4000, GptError::Reversed(6)),
        (u64::MAX, 0, GptError::Reversed(6)),
        (0, u64::MAX, GptError::BeyondDisk(6)),
    ] {
        let disk = Disk {
            partitions: vec![(5, AREA, first, last)],
            ..Disk::new(512)
        };
        assert_eq!(disk.find(), Err(error));
        // The disk was cut, so that the table is for a longer one.
        let usable = Some((100, 9000));
        assert_eq!(Disk { usable, ..disk }.find(), Err(error));
    }
    let longer = Disk {
        usable: Some((100, 8192)),
        ..Disk::new(512)
    };
    assert_eq!(longer.find(), Err(GptError::LongerDisk(3)));
    let of_others = Disk {
        partitions: vec![(0, LINUX, 4000, 9000)],
        usable: Some((100, 9000)),
        ..Disk::new(512)
    };
    assert_eq!(of_others.find(), Ok(vec![]), "Linux shows nothing");
    let disk = Disk {
        partitions: vec![(0, LINUX, 0, u64::MAX)],
        ..Disk::new(512)
    };
    assert_eq!(disk.find(), Ok(vec![]), "no area can overlap it");
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
    for (entries, entry_bytes, error) in [
        (u32::MAX, 128, GptError::Entries(u32::MAX)),
        (u32::MAX, 1 << 31, GptError::EntrySize(1 << 31)),
        (8193, 128, GptError::Entries(8193)),
        (128, 0, GptError::EntrySize(0)),
        (128, 100, GptError::EntrySize(100)),
    ] {
        let mut disk = Disk::new(512).build();
        for lba in [1, 8191] {
            edit_header(&mut disk, 512, lba, |header| {
                header.number_of_partition_entries = U32Le::from_u32(entries);
                header.size_of_partition_entry = U32Le::from_u32(entry_bytes);
            });
        }
        disk.restart();
        assert_eq!(find(&mut disk, 512), Err(error));
        assert_eq!(disk.log().len(), 1, "the MBR and the header");
    }
}

#[test]
fn a_failing_disk_is_named() {
    // The MBR and the header, the array, the backup, and the ends of the disk.
    for n in 0..9 {
        let mut disk = Disk::new(512).build();
        disk.inject(Fault::nth(n, Effect::Fail));
        let found = find(&mut disk, 512);
        let named = matches!(found, Err(GptError::Medium(MediumError::Device { status, .. })) if status == INJECTED_STATUS);
        assert!(named, "{found:?}");
    }
}

/// A block near a limit of the test's disk of 256 blocks, or anywhere.
fn block() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..256,
        1 => prop_oneof![Just(0), Just(1), Just(33), Just(34), Just(222), Just(223), Just(255)],
        1 => any::<u64>(),
    ]
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
        edit_header(&mut disk, 512, 1, |header| {
            header.number_of_partition_entries = U32Le::from_u32(entries >> (4 * shift));
            header.size_of_partition_entry = U32Le::from_u32(if shift < 4 { 128 } else { entry_bytes });
            header.partition_entry_lba = LbaLe::from_u64(array_lba);
        });
        let _ = find(&mut disk, 512);
    }

    /// The area is found if and only if its blocks are free by a count of each block.
    #[test]
    fn an_area_s_blocks_are_its_own(
        area in (block(), block()),
        others in prop::collection::vec((0u32..128, block(), block()), 0..5),
        usable in prop_oneof![Just((34, 222)), Just((0, 255)), (0u64..256, 0u64..256)],
    ) {
        let mut table = Disk {
            blocks: 256,
            usable: Some(usable),
            partitions: vec![(127, AREA, area.0, area.1)],
            ..Disk::new(512)
        };
        for (number, first, last) in others {
            if table.partitions.iter().all(|(other, ..)| *other != number) {
                table = table.and(number, LINUX, first, last);
            }
        }
        let claims = |block: u64| {
            let is_table = !(34..=222).contains(&block);
            let is_other = table.partitions[1..].iter().any(|(_, _, first, last)| (*first..=*last).contains(&block));
            is_table || is_other || !(usable.0..=usable.1).contains(&block)
        };
        let is_reversed = table.partitions.iter().any(|(_, _, first, last)| first > last);
        let is_free = !is_reversed && area.1 < 256 && (area.0..=area.1).all(|block| !claims(block));
        let found = table.find();
        prop_assert_eq!(found.is_ok(), is_free && usable.0 <= usable.1, "{:?}", found);
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
