//! Partition tables: whatever stands on a disk, the areas found lie within it.
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
use poorwill_fuzz::{Cases, Input, disk};
use poorwill_medium::Medium;
use poorwill_medium::fake::FakeMedium;
use poorwill_memory::Page;
use poorwill_store::{GptError, MAX_AREAS, find_areas};

poorwill_fuzz::target!(max_len = 2048, run);

const AREA: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));
const MAX_PAGES: u64 = 512;

fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let block_bytes = [512u32, 4096, 1024][input.below(3) as usize];
    let mut medium = FakeMedium::new(input.below(MAX_PAGES) * 4096);
    fill(&mut input, &mut medium, block_bytes.into());
    medium.restart();
    disk::inject(&mut medium, &mut input);

    let mut scratch = [Page::ZERO];
    let result = find_areas(&mut medium, block_bytes, &mut scratch);
    assert!(!disk::was_written(&medium), "looking for areas writes");
    match result {
        Ok(areas) => {
            assert!(areas.len() <= MAX_AREAS);
            for area in areas {
                let end = area.start.checked_add(area.length).expect("no overflow");
                assert!(area.length > 0 && end <= medium.capacity(), "{area:?}");
                assert!(area.partition > 0);
            }
        }
        Err(GptError::BlockSize(bytes)) => assert_eq!(bytes, 1024),
        Err(_) => {}
    }
}

/// What is on the disk: a protective MBR, tables that are right but for what
/// the input changes, and some plain bytes of the input.
fn fill(input: &mut Input<'_>, medium: &mut FakeMedium, block: u64) {
    let blocks = medium.capacity() / block;
    if !input.one_in(8) {
        let mbr = MasterBootRecord::protective_mbr(blocks.max(1));
        disk::put(medium, 0, bytemuck::bytes_of(&mbr));
    }
    for lba in [1, blocks.saturating_sub(1)] {
        match input.below(4) {
            0 => put_table(input, medium, block, lba),
            1 => {}
            2 => put_table(input, medium, block, lba),
            _ => {
                let raw: [u8; 128] = std::array::from_fn(|_| input.any());
                disk::put(medium, lba * block, &raw);
            }
        }
    }
    for _ in 0..input.below(4) {
        let at = input.below(medium.capacity() + 1);
        let bytes: [u8; 16] = input.any();
        disk::put(medium, at, &bytes);
    }
}

fn put_table(input: &mut Input<'_>, medium: &mut FakeMedium, block: u64, lba: u64) {
    let blocks = medium.capacity() / block;
    let entry_bytes = match input.below(6) {
        0..=2 => 128,
        3 => 256,
        4 => 1 << input.below(20),
        _ => input.edgy() as u32,
    };
    let entries = match input.below(4) {
        0 => 128,
        1 | 2 => input.below(40) as u32,
        _ => input.edgy() as u32,
    };
    let array = array(input, entry_bytes, blocks);
    let array_lba = match input.below(4) {
        0..=2 => 2 + input.below(blocks.max(1)),
        _ => input.edgy(),
    };
    disk::put(medium, array_lba.saturating_mul(block), &array);
    let mut header = GptHeader {
        signature: GptHeaderSignature::EFI_COMPATIBLE_PARTITION_TABLE_HEADER,
        revision: GptHeaderRevision::VERSION_1_0,
        header_size: U32Le::from_u32(92),
        my_lba: LbaLe::from_u64(if input.one_in(16) { input.edgy() } else { lba }),
        partition_entry_lba: LbaLe::from_u64(array_lba),
        number_of_partition_entries: U32Le::from_u32(entries),
        size_of_partition_entry: U32Le::from_u32(entry_bytes),
        ..GptHeader::default()
    };
    let length = u64::from(entries) * u64::from(entry_bytes);
    let start = array_lba.saturating_mul(block) as usize;
    let there = usize::try_from(length)
        .ok()
        .and_then(|length| medium.bytes().get(start..start.checked_add(length)?));
    let crc = Crc::<u32>::new(&Crc32::ALGORITHM).checksum(there.unwrap_or_default());
    header.partition_entry_array_crc32 = Crc32(U32Le::from_u32(crc));
    if input.one_in(16) {
        header.header_size = U32Le::from_u32(input.edgy() as u32);
    }
    header.update_header_crc32();
    if input.one_in(16) {
        header.header_crc32 = Crc32(U32Le::from_u32(input.any()));
    }
    disk::put(medium, lba * block, bytemuck::bytes_of(&header));
}

fn array(input: &mut Input<'_>, entry_bytes: u32, blocks: u64) -> Vec<u8> {
    let mut array = Vec::new();
    for _ in 0..input.below(20) {
        let first = if input.one_in(8) {
            input.edgy()
        } else {
            input.below(blocks + 2)
        };
        let last = match input.below(8) {
            0 => input.edgy(),
            1 => first.wrapping_sub(1),
            _ => first.saturating_add(input.below(blocks + 1)),
        };
        let mut entry = GptPartitionEntry {
            starting_lba: LbaLe::from_u64(first),
            ending_lba: LbaLe::from_u64(last),
            ..GptPartitionEntry::default()
        };
        if !input.one_in(4) {
            entry.partition_type_guid = AREA;
        }
        array.extend_from_slice(bytemuck::bytes_of(&entry));
        let gap = entry_bytes.saturating_sub(128).min(4096);
        array.extend(std::iter::repeat_n(0, gap as usize));
    }
    array
}
