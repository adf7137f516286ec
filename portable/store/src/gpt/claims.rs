//! Checks that only a sleep area claims its blocks, before a byte is written there.

use arrayvec::ArrayVec;
use gpt_disk_types::MbrPartitionRecord;
use poorwill_medium::Medium;

use super::area::AreaLocation;
use super::error::GptError;
use super::table::{Blocks, Copy, Header, PRIMARY, PROTECTIVE, Table};

/// The blocks of an area on a disk.
pub(super) fn blocks_of(area: &AreaLocation, block_bytes: u64) -> Blocks {
    Blocks {
        first: area.start / block_bytes,
        last: (area.start + area.length) / block_bytes - 1,
    }
}

/// Checks the place of each area: within the usable blocks, and apart from the table, from
/// each other entry, shown by Linux or not, and from partitions of the MBR.
// Not inlined, so that this frame ends before the area is used.
#[inline(never)]
pub(super) fn check<M: Medium>(
    table: &mut Table<'_, M>,
    header: &Header,
    mbr: &[MbrPartitionRecord; 4],
    areas: &[AreaLocation],
) -> Result<(), GptError> {
    let own = own_blocks(table, header)?;
    let block_bytes = table.block_bytes;
    for area in areas {
        let (blocks, number) = (blocks_of(area, block_bytes), area.partition);
        if own.iter().any(|own| own.overlaps(blocks)) {
            return Err(GptError::OnTable(number));
        }
        let Blocks { first, last } = header.usable;
        if blocks.first < first || blocks.last > last {
            let area = number;
            return Err(GptError::NotUsable { area, first, last });
        }
        check_mbr(mbr, blocks, number)?;
    }
    check_entries(table, header, areas)
}

/// The most ranges of a table's own blocks.
const OWN: usize = 8;

/// The blocks of the table: the MBR, both headers, and their entry arrays. A lost backup
/// will be written again at its usual place: the header in the block that the primary names,
/// and the array directly before it.
fn own_blocks<M: Medium>(
    table: &mut Table<'_, M>,
    header: &Header,
) -> Result<ArrayVec<Blocks, OWN>, GptError> {
    let one = |block| Blocks {
        first: block,
        last: block,
    };
    let mut own = ArrayVec::from_iter([one(0), one(PRIMARY), header.array]);
    let length = header.array.last - header.array.first + 1;
    if let Some(first) = header.alternate.checked_sub(length) {
        let last = header.alternate;
        own.push(Blocks { first, last });
    }
    let last = table.blocks - 1;
    let places = [
        Some(last),
        Some(header.alternate).filter(|other| *other != last),
    ];
    for lba in places.into_iter().flatten() {
        if let Copy::Valid(backup) | Copy::Longer(backup) = table.copy(lba)? {
            own.extend([one(lba), backup.array]);
        }
    }
    Ok(own)
}

/// Checks an area against a hybrid MBR. Linux ignores its partitions beside a GPT, other
/// systems do not. A partition that repeats the area is no other one.
fn check_mbr(mbr: &[MbrPartitionRecord; 4], area: Blocks, number: u32) -> Result<(), GptError> {
    for (record, partition) in (1..).zip(mbr) {
        let length = u64::from(partition.size_in_lba.to_u32());
        if matches!(partition.os_indicator, 0 | PROTECTIVE) || length == 0 {
            continue;
        }
        let first = u64::from(partition.starting_lba.to_u32());
        let last = first + length - 1;
        let blocks = Blocks { first, last };
        if blocks != area && blocks.overlaps(area) {
            let area = number;
            return Err(GptError::OverlapMbr { area, record });
        }
    }
    Ok(())
}

/// Checks each area against all entries, which need not be listed.
fn check_entries<M: Medium>(
    table: &mut Table<'_, M>,
    header: &Header,
    areas: &[AreaLocation],
) -> Result<(), GptError> {
    let block_bytes = table.block_bytes;
    let mut checked = Ok(());
    table.entries_again(header, &mut |other, entry| {
        if checked.is_err() {
            return;
        }
        let Some(blocks) = Blocks::of(entry) else {
            checked = Err(GptError::Reversed(other));
            return;
        };
        let overlaps = |area: &&AreaLocation| {
            area.partition != other && blocks_of(area, block_bytes).overlaps(blocks)
        };
        if let Some(area) = areas.iter().find(overlaps) {
            let area = area.partition;
            checked = Err(GptError::Overlap { area, other });
        }
    })?;
    checked
}
