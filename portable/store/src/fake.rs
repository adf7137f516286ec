//! A partition table with one sleep area, for tests.

extern crate std;

use std::vec;
use std::vec::Vec;

use gpt_disk_types::{
    Crc32, GptHeader, GptHeaderRevision, GptHeaderSignature, GptPartitionEntry, GptPartitionType,
    LbaLe, MasterBootRecord, U32Le, crc, guid,
};

const AREA: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

/// Bytes of a block.
pub const BLOCK_BYTES: u32 = 512;

/// Bytes of the table: the first byte that a partition can have.
pub const TABLE_BYTES: u64 = 34 * BLOCK_BYTES as u64;

const ENTRIES: u32 = 128;
const ENTRY_BYTES: u32 = 128;

/// The first [`TABLE_BYTES`] of a disk whose one partition is a sleep area right
/// behind them, of `length` bytes.
#[must_use]
pub fn partition_table(length: u64) -> Vec<u8> {
    let block = u64::from(BLOCK_BYTES);
    let (first, blocks) = (TABLE_BYTES / block, length / block);
    let entry = GptPartitionEntry {
        partition_type_guid: AREA,
        starting_lba: LbaLe::from_u64(first),
        ending_lba: LbaLe::from_u64(first + blocks - 1),
        ..Default::default()
    };
    let mut array = vec![0; (ENTRIES * ENTRY_BYTES) as usize];
    array[..ENTRY_BYTES as usize].copy_from_slice(bytemuck::bytes_of(&entry));
    let checksum = crc::Crc::<u32>::new(&Crc32::ALGORITHM).checksum(&array);
    let mut header = GptHeader {
        signature: GptHeaderSignature::EFI_COMPATIBLE_PARTITION_TABLE_HEADER,
        revision: GptHeaderRevision::VERSION_1_0,
        my_lba: LbaLe::from_u64(1),
        partition_entry_lba: LbaLe::from_u64(2),
        number_of_partition_entries: U32Le::from_u32(ENTRIES),
        size_of_partition_entry: U32Le::from_u32(ENTRY_BYTES),
        partition_entry_array_crc32: Crc32(U32Le::from_u32(checksum)),
        ..Default::default()
    };
    header.update_header_crc32();
    let block = BLOCK_BYTES as usize;
    let mut table = vec![0; 2 * block];
    let mbr = MasterBootRecord::protective_mbr(first + blocks);
    table[..block].copy_from_slice(bytemuck::bytes_of(&mbr));
    let header = bytemuck::bytes_of(&header);
    table[block..block + header.len()].copy_from_slice(header);
    table.extend(array);
    table
}
