//! The partition table of a new disk.

use std::fs::File;
use std::io;

use gpt_disk_io::{BlockIoAdapter, Disk, DiskError as GptDiskError};
use gpt_disk_types::{
    BlockSize, GptHeader, GptPartitionEntry, GptPartitionEntryArray, GptPartitionEntryArrayLayout,
    GptPartitionEntrySize, GptPartitionName, GptPartitionType, Guid, Lba, LbaLe, U32Le, guid,
};
use rustix::rand::{GetRandomFlags, getrandom};

/// Alignment of partitions in bytes, as Linux's tools choose it.
pub(super) const ALIGNMENT: u64 = 1 << 20;

/// The root file system of a 64-bit RISC-V Linux (Discoverable Partitions
/// Specification).
const LINUX_ROOT_RISCV64: GptPartitionType =
    GptPartitionType(guid!("72ec70a6-cf74-40e6-bd49-4bda08e8f224"));

/// Linux swap (Discoverable Partitions Specification).
const LINUX_SWAP: GptPartitionType =
    GptPartitionType(guid!("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"));

/// A sleep area; must equal [`poorwill_store::AREA_TYPE`].
const SLEEP_AREA: GptPartitionType =
    GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

const BLOCK: BlockSize = BlockSize::BS_512;
const ENTRIES: u32 = 128;
/// Blocks of the table's entries.
const ENTRY_BLOCKS: u64 = ENTRIES as u64 * 128 / 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The root file system; its label is `root`.
    Root,
    /// Linux's swap or hibernation; its label is `swap`.
    Swap,
    /// A sleep area; its label is `sleep`.
    SleepArea,
}

/// A partition of a new disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    pub(super) purpose: Use,
    pub(super) start: u64,
    pub(super) bytes: u64,
}

/// Places partitions of the given lengths one after the other. Returns them, and the length of the
/// disk.
pub(super) fn lay_out(wanted: &[(Use, u64)]) -> (Vec<Partition>, u64) {
    let mut end = ALIGNMENT;
    let mut partitions = Vec::new();
    for &(purpose, bytes) in wanted {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        partitions.push(Partition {
            purpose,
            start: end,
            bytes,
        });
        end += bytes;
    }
    // Room for the table's second copy, in the disk's last 33 blocks.
    (partitions, end + ALIGNMENT)
}

/// Writes a protective MBR and both copies of the table. `file` must have its final length.
pub(super) fn write(file: &File, partitions: &[Partition]) -> io::Result<()> {
    let blocks = file.metadata()?.len() / BLOCK.to_u64();
    let mut disk = Disk::new(BlockIoAdapter::new(file, BLOCK)).map_err(plain)?;
    let mut block = vec![0; 512];
    disk.write_protective_mbr(&mut block).map_err(plain)?;

    let layout = GptPartitionEntryArrayLayout {
        start_lba: Lba(2),
        entry_size: GptPartitionEntrySize::new(128).map_err(io::Error::other)?,
        num_entries: ENTRIES,
    };
    let mut storage = vec![0; 128 * 128];
    let mut entries =
        GptPartitionEntryArray::new(layout, BLOCK, &mut storage).map_err(io::Error::other)?;
    for (index, partition) in (0..).zip(partitions) {
        *entries
            .get_partition_entry_mut(index)
            .ok_or(io::ErrorKind::InvalidInput)? = entry(partition)?;
    }

    let last = blocks - 1;
    let mut header = GptHeader {
        my_lba: LbaLe::from_u64(1),
        alternate_lba: LbaLe::from_u64(last),
        first_usable_lba: LbaLe::from_u64(2 + ENTRY_BLOCKS),
        last_usable_lba: LbaLe::from_u64(last - 1 - ENTRY_BLOCKS),
        disk_guid: random_guid()?,
        partition_entry_lba: LbaLe::from_u64(2),
        number_of_partition_entries: U32Le::from_u32(ENTRIES),
        partition_entry_array_crc32: entries.calculate_crc32(),
        ..GptHeader::default()
    };
    header.update_header_crc32();
    disk.write_primary_gpt_header(&header, &mut block)
        .map_err(plain)?;
    disk.write_gpt_partition_entry_array(&entries)
        .map_err(plain)?;

    header.my_lba = LbaLe::from_u64(last);
    header.alternate_lba = LbaLe::from_u64(1);
    header.partition_entry_lba = LbaLe::from_u64(last - ENTRY_BLOCKS);
    header.update_header_crc32();
    entries.set_start_lba(Lba(last - ENTRY_BLOCKS));
    disk.write_secondary_gpt_header(&header, &mut block)
        .map_err(plain)?;
    disk.write_gpt_partition_entry_array(&entries)
        .map_err(plain)?;
    disk.flush().map_err(plain)
}

fn entry(partition: &Partition) -> io::Result<GptPartitionEntry> {
    let (kind, label) = match partition.purpose {
        Use::Root => (LINUX_ROOT_RISCV64, "root"),
        Use::Swap => (LINUX_SWAP, "swap"),
        Use::SleepArea => (SLEEP_AREA, "sleep"),
    };
    let name: GptPartitionName = label.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(GptPartitionEntry {
        partition_type_guid: kind,
        unique_partition_guid: random_guid()?,
        starting_lba: LbaLe::from_u64(partition.start / BLOCK.to_u64()),
        ending_lba: LbaLe::from_u64((partition.start + partition.bytes) / BLOCK.to_u64() - 1),
        name,
        ..GptPartitionEntry::default()
    })
}

fn random_guid() -> io::Result<Guid> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(Guid::from_random_bytes(bytes))
}

/// Unwraps the operating system's error, so that callers can recognise a full disk.
fn plain(error: GptDiskError<io::Error>) -> io::Error {
    match error {
        GptDiskError::Io(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn area_type_is_the_store_s() {
        assert_eq!(SLEEP_AREA.to_string(), poorwill_store::AREA_TYPE);
    }

    #[test]
    fn partitions_are_aligned_and_do_not_touch_the_tables() {
        let (partitions, length) = lay_out(&[(Use::Root, (3 << 20) + 1), (Use::SleepArea, 1)]);
        assert_eq!(
            partitions,
            [
                Partition {
                    purpose: Use::Root,
                    start: 1 << 20,
                    bytes: 4 << 20
                },
                Partition {
                    purpose: Use::SleepArea,
                    start: 5 << 20,
                    bytes: 1 << 20
                },
            ]
        );
        assert_eq!(length, 7 << 20);
    }
}
