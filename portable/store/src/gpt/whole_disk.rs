//! Finds contents of a whole disk that leave its partition table valid.
//!
//! Linux then shows the partitions, and yet may use all blocks of the disk. Other contents
//! than these overwrite the MBR, the header or the entries when they are made.

use poorwill_medium::Medium;

use super::error::GptError;
use super::table::{Blocks, Header, PRIMARY, Table};
use crate::content::{Content, MARK_OF_RAID, beside_table};

/// The unit of the places of a software RAID's superblock.
const SECTOR: u64 = 512;

/// The content of the whole disk, if there is one.
// Not inlined, so that this frame ends before the area is used.
#[inline(never)]
pub(super) fn find<M: Medium>(
    table: &mut Table<'_, M>,
    header: &Header,
) -> Result<Option<Content>, GptError> {
    for (content, at, mark) in beside_table() {
        if !is_free(table, header, at) {
            continue;
        }
        if table.bytes_at(at)?.starts_with(mark) {
            return Ok(Some(content));
        }
    }
    let is_raid = has_raid_1_0(table)? || has_raid_0_90(table, header)?;
    Ok(is_raid.then_some(Content::Raid))
}

/// Whether a byte at the disk's start belongs neither to the table nor to a partition. In
/// blocks of 4096 bytes, these are the bytes after the MBR; they are reserved.
fn is_free<M: Medium>(table: &Table<'_, M>, header: &Header, at: u64) -> bool {
    let block = at / table.block_bytes;
    at < table.bytes()
        && block < header.usable.first
        && block != PRIMARY
        && !header.array.contains(block)
}

/// Whether the disk is a member of a software RAID of version 1.0, whose superblock is 8 to
/// 12 KiB before the end. The superblock names its own place on its device, so that of a
/// partition does not count.
fn has_raid_1_0<M: Medium>(table: &mut Table<'_, M>) -> Result<bool, GptError> {
    const PLACE: usize = 144;
    let sectors = table.bytes() / SECTOR;
    let Some(place) = sectors.checked_sub(16).map(|place| place / 8 * 8) else {
        return Ok(false);
    };
    let bytes = table.bytes_at(place * SECTOR)?;
    Ok(bytes.starts_with(MARK_OF_RAID) && word(bytes, 4) == 1 && long(bytes, PLACE) == place)
}

/// The same for version 0.90, 64 to 128 KiB before the end. That of a partition may be at
/// the same place. It names the data before it, which then fit into the partition.
fn has_raid_0_90<M: Medium>(table: &mut Table<'_, M>, header: &Header) -> Result<bool, GptError> {
    const UNIT: u64 = 64 << 10;
    let Some(place) = (table.bytes() / UNIT * UNIT).checked_sub(UNIT) else {
        return Ok(false);
    };
    let bytes = table.bytes_at(place)?;
    let is_there = bytes.starts_with(MARK_OF_RAID) && word(bytes, 4) == 0 && word(bytes, 8) == 90;
    if !is_there {
        return Ok(false);
    }
    let data_bytes = u64::from(word(bytes, 32)) << 10;
    let block_bytes = table.block_bytes;
    let mut is_partition_s = false;
    table.entries_again(header, &mut |_, entry| {
        let around = Blocks::of(entry).filter(|blocks| blocks.contains(place / block_bytes));
        is_partition_s |=
            around.is_some_and(|blocks| data_bytes <= place - blocks.first * block_bytes);
    })?;
    Ok(!is_partition_s)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes[at..].first_chunk();
    bytes.copied().map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..].first_chunk();
    bytes.copied().map_or(0, u64::from_le_bytes)
}
