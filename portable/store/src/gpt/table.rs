//! Reads a partition table (UEFI 2.10, section 5.3) by Linux's rules
//! (`block/partitions/efi.c`). Where Linux shows no partition, it may use the whole disk.

use gpt_disk_types::crc::Crc;
use gpt_disk_types::{
    Crc32, GptHeader, GptPartitionEntry, GptPartitionType, MasterBootRecord, MbrPartitionRecord,
};
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use zerocopy::IntoBytes;

use super::area::MAX_ENTRIES;
use super::error::GptError;

/// The block of the table that Linux uses.
pub(super) const PRIMARY: u64 = 1;

/// The type of the protective MBR's partition.
pub(super) const PROTECTIVE: u8 = 0xee;

const HEADER_BYTES: usize = size_of::<GptHeader>();
const ENTRY_BYTES: usize = size_of::<GptPartitionEntry>();

static CRC: Crc<u32> = Crc::<u32>::new(&Crc32::ALGORITHM);

/// A range of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) first: u64,
    /// The last one, which belongs to the range.
    pub(super) last: u64,
}

impl Blocks {
    pub(super) fn overlaps(self, other: Blocks) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub(super) fn contains(self, block: u64) -> bool {
        (self.first..=self.last).contains(&block)
    }

    /// The blocks of an entry; `None`: it ends before it begins.
    pub(super) fn of(entry: &GptPartitionEntry) -> Option<Self> {
        let (first, last) = (entry.starting_lba.to_u64(), entry.ending_lba.to_u64());
        (first <= last).then_some(Blocks { first, last })
    }
}

/// The facts of a valid header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// The blocks for partitions.
    pub(super) usable: Blocks,
    /// The block of the other copy of the table.
    pub(super) alternate: u64,
    /// The blocks of the entry array.
    pub(super) array: Blocks,
    entries: u32,
    checksum: u32,
}

/// One copy of a table, without its entry array.
#[derive(Clone, Copy, Debug)]
pub(super) enum Copy {
    Absent,
    Damaged,
    /// Its checksum is right, but this version cannot read it.
    Unsupported(GptError),
    /// It is right except that the usable blocks reach beyond the end of the disk.
    Longer(Header),
    Valid(Header),
}

/// A disk whose table is being read.
pub(super) struct Table<'t, M> {
    disk: &'t mut M,
    page: &'t mut Page,
    /// The offset of the part of the disk that is in `page`.
    held: Option<u64>,
    pub(super) block_bytes: u64,
    pub(super) blocks: u64,
}

impl<'t, M: Medium> Table<'t, M> {
    pub(super) fn new(
        disk: &'t mut M,
        block_bytes: u32,
        page: &'t mut Page,
    ) -> Result<Self, GptError> {
        if block_bytes != 512 && block_bytes != 4096 {
            return Err(GptError::BlockSize(block_bytes));
        }
        Ok(Table {
            blocks: disk.capacity() / u64::from(block_bytes),
            block_bytes: block_bytes.into(),
            disk,
            page,
            held: None,
        })
    }

    /// The disk's length in bytes, in whole pages.
    pub(super) fn bytes(&self) -> u64 {
        self.disk.capacity()
    }

    /// Reads the page with this byte; returns the page's bytes from it on.
    pub(super) fn bytes_at(&mut self, byte: u64) -> Result<&[u8], MediumError> {
        let page = byte / PAGE_BYTES * PAGE_BYTES;
        if self.held != Some(page) {
            self.held = None;
            self.disk.read(page, core::slice::from_mut(self.page))?;
            self.held = Some(page);
        }
        Ok(&self.page.as_bytes()[to_usize(byte - page)..])
    }

    /// The partitions of the MBR, if it announces a GPT. Without it, an old GPT may remain
    /// whose partitions are now in other use.
    pub(super) fn protective_mbr(&mut self) -> Result<Option<[MbrPartitionRecord; 4]>, GptError> {
        if self.blocks < 3 {
            return Ok(None);
        }
        let mbr = &self.bytes_at(0)?[..size_of::<MasterBootRecord>()];
        let mbr: &MasterBootRecord = bytemuck::from_bytes(mbr);
        let announces = |record: &MbrPartitionRecord| {
            record.os_indicator == PROTECTIVE && u64::from(record.starting_lba.to_u32()) == PRIMARY
        };
        let is_protective = mbr.signature == [0x55, 0xaa] && mbr.partitions.iter().any(announces);
        Ok(is_protective.then_some(mbr.partitions))
    }

    /// Reads the header in block `lba`.
    pub(super) fn copy(&mut self, lba: u64) -> Result<Copy, GptError> {
        if lba >= self.blocks {
            return Ok(Copy::Absent);
        }
        let (blocks, block_bytes) = (self.blocks, self.block_bytes);
        let block = &self.bytes_at(lba * block_bytes)?[..to_usize(block_bytes)];
        let header: &GptHeader = bytemuck::from_bytes(&block[..HEADER_BYTES]);
        if !header.is_signature_valid() {
            return Ok(Copy::Absent);
        }
        let length = header.header_size.to_u32() as usize;
        if !(HEADER_BYTES..=block.len()).contains(&length)
            || checksum_of(&block[..length]) != header.header_crc32.0.to_u32()
            || header.my_lba.to_u64() != lba
        {
            return Ok(Copy::Damaged);
        }
        Ok(read_header(header, blocks, block_bytes))
    }

    /// Runs `job` on each entry in use, with its number from 1. Returns whether the checksum is
    /// right: otherwise the entries do not count.
    pub(super) fn entries(
        &mut self,
        header: &Header,
        job: &mut dyn FnMut(u32, &GptPartitionEntry),
    ) -> Result<bool, GptError> {
        let mut digest = CRC.digest();
        self.on_array(header, &mut |first, chunk| {
            digest.update(chunk);
            on_entries(first, chunk, job);
        })?;
        Ok(digest.finalize() == header.checksum)
    }

    /// The same for a table whose checksum was right before.
    pub(super) fn entries_again(
        &mut self,
        header: &Header,
        job: &mut dyn FnMut(u32, &GptPartitionEntry),
    ) -> Result<(), GptError> {
        self.on_array(header, &mut |first, chunk| on_entries(first, chunk, job))
    }

    /// Runs `job` on the entry array, page by page, since the array may be longer than the
    /// scratch. The number is that of the first entry. Entries do not cross pages.
    fn on_array(
        &mut self,
        header: &Header,
        job: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<(), GptError> {
        let mut at = header.array.first * self.block_bytes;
        let mut left = to_usize(u64::from(header.entries)) * ENTRY_BYTES;
        let mut number = 1;
        while left > 0 {
            let bytes = self.bytes_at(at)?;
            let chunk = &bytes[..bytes.len().min(left)];
            job(number, chunk);
            number += u32::try_from(chunk.len() / ENTRY_BYTES).unwrap_or(u32::MAX);
            left -= chunk.len();
            at += chunk.len() as u64;
        }
        Ok(())
    }
}

fn on_entries(first: u32, chunk: &[u8], job: &mut dyn FnMut(u32, &GptPartitionEntry)) {
    for (number, entry) in (first..).zip(chunk.chunks_exact(ENTRY_BYTES)) {
        let entry: &GptPartitionEntry = bytemuck::from_bytes(entry);
        let kind = entry.partition_type_guid;
        if kind != GptPartitionType::UNUSED {
            job(number, entry);
        }
    }
}

/// The facts of a header whose checksum is right.
fn read_header(header: &GptHeader, blocks: u64, block_bytes: u64) -> Copy {
    let usable = Blocks {
        first: header.first_usable_lba.to_u64(),
        last: header.last_usable_lba.to_u64(),
    };
    let entry_bytes = header.size_of_partition_entry.to_u32();
    let entries = header.number_of_partition_entries.to_u32();
    if entry_bytes as usize != ENTRY_BYTES {
        return Copy::Unsupported(GptError::EntrySize(entry_bytes));
    }
    if entries > MAX_ENTRIES {
        return Copy::Unsupported(GptError::Entries(entries));
    }
    let first = header.partition_entry_lba.to_u64();
    let array_bytes = u64::from(entries) * ENTRY_BYTES as u64;
    let array_end = first.saturating_add(array_bytes.div_ceil(block_bytes));
    if entries == 0 || array_end > blocks || usable.first > usable.last {
        return Copy::Damaged;
    }
    let facts = Header {
        usable,
        alternate: header.alternate_lba.to_u64(),
        array: Blocks {
            first,
            last: array_end - 1,
        },
        entries,
        checksum: header.partition_entry_array_crc32.0.to_u32(),
    };
    if usable.last >= blocks {
        Copy::Longer(facts)
    } else {
        Copy::Valid(facts)
    }
}

/// The checksum of a header, for which the field with the checksum is zero.
fn checksum_of(header: &[u8]) -> u32 {
    const FIELD: core::ops::Range<usize> = 16..20;
    let mut digest = CRC.digest();
    digest.update(&header[..FIELD.start]);
    digest.update(&[0; FIELD.end - FIELD.start]);
    digest.update(&header[FIELD.end..]);
    digest.finalize()
}
