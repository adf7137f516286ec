//! Partition tables: whatever is on a disk, an area is found only where Linux shows it and
//! nothing else claims its blocks, and no write of a sleep leaves it. Stale tables, tables with
//! overlaps, and disks with another content are among them.
#![cfg_attr(fuzzing, no_main)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers are drawn below small limits"
)]

use gpt_disk_types::crc::Crc;
use gpt_disk_types::{
    Crc32, GptHeader, GptHeaderRevision, GptHeaderSignature, GptPartitionEntry, GptPartitionType,
    LbaLe, MasterBootRecord, U32Le, guid,
};
use poorwill_fuzz::area::save_into;
use poorwill_fuzz::linux::{Disk, Verdict};
use poorwill_fuzz::{Cases, Input, disk};
use poorwill_image::ImageKind;
use poorwill_medium::fake::FakeMedium;
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{
    Area, Areas, Configuration, DiscardReason, DiskId, GptError, MIN_AREA_BYTES,
    PartitionFingerprints, Purpose, RecordFormat, find_areas, fingerprint_partitions,
};

poorwill_fuzz::target!(max_len = 2048, run);

const AREA: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));
const LINUX: GptPartitionType = GptPartitionType(guid!("0fc63daf-8483-4772-8e79-3d69d8477de4"));

const MAX_PAGES: u64 = 512;
/// Pages beyond the least sleep area, of a disk that has room for one.
const MORE_PAGES: u64 = 300;

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let block_bytes = match input.below(8) {
        0 => 1024,
        1..=3 => 4096,
        _ => 512,
    };
    let pages = match input.below(6) {
        5 => MIN_AREA_BYTES / 4096 + 16 + input.below(MORE_PAGES),
        _ => input.below(MAX_PAGES),
    };
    let mut medium = FakeMedium::new(pages * 4096);
    fill(&mut input, &mut medium, block_bytes.into());
    let before = medium.bytes().to_vec();
    medium.restart();
    let is_faulty = input.one_in(8);
    if is_faulty {
        disk::inject(&mut medium, &mut input);
    }
    let mut scratch = [Page::ZERO];
    let result = find_areas(&mut medium, block_bytes, &mut scratch);
    let mut fingerprints = PartitionFingerprints::new();
    // Any error will do, but no panic.
    let _ = fingerprint_partitions(
        &mut medium,
        DiskId(0),
        block_bytes,
        &mut scratch,
        &mut fingerprints,
    );
    assert!(!disk::was_written(&medium), "looking for areas writes");
    if block_bytes == 1024 {
        assert_eq!(result, Err(GptError::BlockSize(1024)));
        return;
    }
    let disk = Disk {
        bytes: &before,
        block: block_bytes.into(),
    };
    let verdict = disk.verdict();
    if !is_faulty {
        check(&verdict, &result);
    }
    if let Ok(areas) = result {
        write_to(&mut medium, &areas);
        check_writes(&verdict, &before, medium.bytes());
    }
}

/// Compares a search with the oracle's.
fn check(verdict: &Verdict, result: &Result<Areas, GptError>) {
    match (verdict, result) {
        (Verdict::Areas(expected), Ok(areas)) => {
            let bytes = areas
                .iter()
                .map(|area| (area.start, area.start + area.length - 1));
            assert_eq!(*expected, bytes.collect::<Vec<_>>());
            assert!(areas.iter().all(|area| (1..256).contains(&area.partition)));
        }
        (Verdict::Refused, Err(error)) => {
            let by_name = error.concerns_area()
                || matches!(error, GptError::EntrySize(_) | GptError::Entries(_));
            assert!(by_name, "{error:?}");
        }
        (Verdict::Nothing, Ok(areas)) if areas.is_empty() => {}
        (Verdict::Nothing, Err(_)) => {}
        (verdict, result) => panic!("{verdict:?} expected: {result:?}"),
    }
}

/// Does in each area what a machine does: it is configured, its images are discarded, and one
/// is made.
fn write_to(medium: &mut FakeMedium, areas: &Areas) {
    for area in areas {
        let mut scratch = Page::ZERO;
        let Ok(window) = Window::new(medium, area.start, area.length) else {
            panic!("an area beyond the medium: {area:?}");
        };
        let Ok(mut area) = Area::open(window, &mut scratch, None, RecordFormat::Image) else {
            continue;
        };
        // The medium may fail.
        let _ = area.configure(&Configuration::default());
        let _ = area.discard_all(DiscardReason::ColdBoot);
        let Ok(mut slot) = area.begin(Purpose::Once) else {
            continue;
        };
        if let Some(saved) = save_into(&mut slot, ImageKind::Once) {
            let _ = slot.commit(&saved, 1);
        }
    }
}

/// Checks that only bytes of areas have changed.
fn check_writes(verdict: &Verdict, before: &[u8], after: &[u8]) {
    let areas = match verdict {
        Verdict::Areas(areas) => &areas[..],
        Verdict::Refused | Verdict::Nothing => &[],
    };
    let pages = before.chunks(4096).zip(after.chunks(4096)).enumerate();
    for (page, (old, new)) in pages.filter(|(_, (old, new))| old != new) {
        let changed = (page * 4096..).zip(old.iter().zip(new));
        for (at, _) in changed.filter(|(_, (old, new))| old != new) {
            let at = at as u64;
            let is_area_s = areas
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&at));
            assert!(is_area_s, "byte {at} was written: {verdict:?}");
        }
    }
}

/// What is on the disk: an MBR, tables that are right but for what the input changes, a content
/// of the whole disk, and some plain bytes of the input.
fn fill(input: &mut Input<'_>, medium: &mut FakeMedium, block: u64) {
    let blocks = medium.capacity() / block;
    if !input.one_in(16) {
        let mut mbr = MasterBootRecord::protective_mbr(blocks.max(1));
        if input.one_in(8) {
            let record = &mut mbr.partitions[input.below(4) as usize];
            record.os_indicator = input.any();
            record.starting_lba = U32Le::from_u32(input.below(blocks + 2) as u32);
            record.size_in_lba = U32Le::from_u32(input.below(blocks + 2) as u32);
        }
        disk::put(medium, 0, bytemuck::bytes_of(&mbr));
    }
    let table = Table::of(input, block, blocks);
    for lba in [blocks.saturating_sub(1), 1] {
        match input.below(8) {
            0 => {}
            1 => {
                let raw: [u8; 128] = std::array::from_fn(|_| input.any());
                disk::put(medium, lba * block, &raw);
            }
            2 => Table::of(input, block, blocks).put(input, medium, lba),
            _ => table.put(input, medium, lba),
        }
    }
    put_content(input, medium);
    for _ in 0..input.below(3) {
        let at = input.below(medium.capacity() + 1);
        let bytes: [u8; 16] = input.any();
        disk::put(medium, at, &bytes);
    }
}

/// Puts a content of the whole disk on it, as its tool does, or only its signature.
fn put_content(input: &mut Input<'_>, medium: &mut FakeMedium) {
    const RAID: u32 = 0xa92b_4efc;
    let bytes = medium.capacity();
    let page = 4096 << input.below(3);
    let first_kib = 1 << 10;
    match input.below(16) {
        0 => {
            disk::put(medium, first_kib, &vec![0; (page - first_kib) as usize]);
            disk::put(medium, page - 10, b"SWAPSPACE2");
        }
        1 => disk::put(medium, 4086, b"SWAPSPACE2"),
        2 => disk::put(medium, 512 * input.below(4), b"LABELONE"),
        3 => disk::put(medium, 4096 * input.below(2), &RAID.to_le_bytes()),
        4 => {
            let place = (bytes / 512).saturating_sub(16) / 8 * 8;
            let mut superblock = [0; 256];
            superblock[..4].copy_from_slice(&RAID.to_le_bytes());
            superblock[4] = 1;
            let own = place.saturating_sub(input.below(3));
            superblock[144..152].copy_from_slice(&own.to_le_bytes());
            disk::put(medium, place * 512, &superblock);
        }
        5 => {
            let place = (bytes / 65536).saturating_sub(1) * 65536;
            let kib = (place / 1024).saturating_sub(input.below(64)) as u32;
            let words = [RAID, 0, 90, 0, 0, 0, 0, 1, kib];
            disk::put(medium, place, &words.map(u32::to_le_bytes).concat());
        }
        6 => disk::put(medium, 0, &[0; 8192]),
        _ => {}
    }
}

/// A table's facts.
struct Table {
    block: u64,
    blocks: u64,
    entries: u32,
    entry_bytes: u32,
    usable: (u64, u64),
    /// The entry array of the primary copy.
    array_lba: u64,
    array: Vec<u8>,
}

impl Table {
    fn of(input: &mut Input<'_>, block: u64, blocks: u64) -> Self {
        let entries = match input.below(8) {
            0..=4 => 128,
            5 | 6 => 1 + input.below(300) as u32,
            _ => input.edgy() as u32,
        };
        let entry_bytes = match input.below(16) {
            0 => 1 << input.below(20),
            1 => input.edgy() as u32,
            _ => 128,
        };
        let array_lba = match input.below(8) {
            0 => 2 + input.below(blocks.max(1)),
            1 => input.edgy(),
            _ => 2,
        };
        let array_blocks = (128 * u64::from(entries)).div_ceil(block);
        let usable = match input.below(8) {
            0 => (input.below(blocks + 1), input.below(blocks + 1)),
            1 => (input.edgy(), input.edgy()),
            2 => (0, blocks.saturating_sub(1)),
            _ => {
                let first = array_lba.saturating_add(array_blocks);
                (first, blocks.saturating_sub(array_blocks + 2))
            }
        };
        Table {
            block,
            blocks,
            entries,
            entry_bytes,
            usable,
            array_lba,
            array: array(input, entries, blocks, usable),
        }
    }

    /// Puts a copy of the table on the disk, with its header in block `lba`.
    fn put(&self, input: &mut Input<'_>, medium: &mut FakeMedium, lba: u64) {
        let last = self.blocks.saturating_sub(1);
        let array_blocks = (self.array.len() as u64).div_ceil(self.block);
        let (alternate, array_lba) = match lba {
            1 => (last, self.array_lba),
            _ => (1, last.saturating_sub(array_blocks)),
        };
        let alternate = match input.below(16) {
            0 => input.edgy(),
            1 => input.below(self.blocks + 1),
            _ => alternate,
        };
        disk::put(medium, array_lba.saturating_mul(self.block), &self.array);
        let mut header = GptHeader {
            signature: GptHeaderSignature::EFI_COMPATIBLE_PARTITION_TABLE_HEADER,
            revision: GptHeaderRevision::VERSION_1_0,
            header_size: U32Le::from_u32(92),
            my_lba: LbaLe::from_u64(if input.one_in(32) { input.edgy() } else { lba }),
            alternate_lba: LbaLe::from_u64(alternate),
            first_usable_lba: LbaLe::from_u64(self.usable.0),
            last_usable_lba: LbaLe::from_u64(self.usable.1),
            partition_entry_lba: LbaLe::from_u64(array_lba),
            number_of_partition_entries: U32Le::from_u32(self.entries),
            size_of_partition_entry: U32Le::from_u32(self.entry_bytes),
            ..GptHeader::default()
        };
        let length = u64::from(self.entries) * u64::from(self.entry_bytes);
        let start = array_lba.saturating_mul(self.block) as usize;
        let there = usize::try_from(length)
            .ok()
            .and_then(|length| medium.bytes().get(start..start.checked_add(length)?));
        let crc = Crc::<u32>::new(&Crc32::ALGORITHM).checksum(there.unwrap_or_default());
        header.partition_entry_array_crc32 = Crc32(U32Le::from_u32(crc));
        if input.one_in(32) {
            header.header_size = U32Le::from_u32(input.edgy() as u32);
        }
        header.update_header_crc32();
        if input.one_in(32) {
            header.header_crc32 = Crc32(U32Le::from_u32(input.any()));
        }
        disk::put(medium, lba * self.block, bytemuck::bytes_of(&header));
    }
}

/// Entries of partitions one after the other, but for what the input changes.
fn array(input: &mut Input<'_>, entries: u32, blocks: u64, usable: (u64, u64)) -> Vec<u8> {
    let mut array = vec![0; 128 * entries.min(8300) as usize];
    let mut next = usable.0;
    let count = 1 + input.below(6);
    for index in 0..count {
        let left = usable
            .1
            .saturating_sub(next)
            .saturating_add(1)
            .clamp(1, blocks + 1);
        let length = match input.below(4) {
            // Long enough for an image, if the disk is.
            _ if index == 0 && count > 3 => left - input.below(left / 8 + 1),
            0 => 1 + input.below(left),
            1 => left,
            _ => left.div_ceil(count).max(1),
        };
        let (mut first, mut last) = (next, next.saturating_add(length - 1));
        next = last.saturating_add(1);
        match input.below(16) {
            0 => first = first.saturating_sub(1),
            1 => last = last.saturating_add(1),
            2 => (first, last) = (input.below(blocks + 2), input.below(blocks + 2)),
            3 => last = input.edgy(),
            _ => {}
        }
        let kind = if input.one_in(3) { LINUX } else { AREA };
        let entry = GptPartitionEntry {
            partition_type_guid: kind,
            starting_lba: LbaLe::from_u64(first),
            ending_lba: LbaLe::from_u64(last),
            ..GptPartitionEntry::default()
        };
        let number = match input.below(8) {
            0 => input.below(u64::from(entries).max(1)) as usize,
            _ => input.below(6) as usize,
        };
        if let Some(place) = array.get_mut(128 * number..128 * (number + 1)) {
            place.copy_from_slice(bytemuck::bytes_of(&entry));
        }
    }
    array
}
