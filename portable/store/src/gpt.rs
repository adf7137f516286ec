use core::ops::Range;

use arrayvec::ArrayVec;
use gpt_disk_types::crc::Crc;
use gpt_disk_types::{
    Crc32, GptHeader, GptPartitionEntry, GptPartitionEntryArrayLayout, GptPartitionType,
    MasterBootRecord, guid,
};
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{PAGE_BYTES, Page, to_usize};
use thiserror::Error;
use zerocopy::IntoBytes;

/// The partition type of a sleep area, as text.
pub const AREA_TYPE: &str = "3063e3c3-c55c-4395-bc5f-8f60545ad228";

/// The most sleep areas on one disk.
pub const MAX_AREAS: usize = 8;

/// A sleep area's place on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaLocation {
    /// The offset of its first byte.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The partition's number, from 1, as in the OS.
    pub partition: u32,
}

/// The sleep areas of a disk, in the order of its partition table.
pub type Areas = ArrayVec<AreaLocation, MAX_AREAS>;

/// The most other partitions on one disk.
pub const MAX_PARTITIONS: usize = 32;

/// A partition that is not a sleep area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The offset of its first byte.
    pub(crate) start: u64,
    /// The length in bytes.
    pub(crate) length: u64,
    pub(crate) number: u32,
    pub(crate) guid: [u8; 16],
    /// The name as printable ASCII, with `?` for other characters, padded with zeros.
    pub(crate) name: [u8; 40],
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    areas: Areas,
    others: ArrayVec<Partition, MAX_PARTITIONS>,
    /// There are more partitions than [`MAX_PARTITIONS`].
    more: bool,
}

/// The reason why a disk's partition table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GptError {
    /// Both copies of the table are damaged.
    #[error("both copies of the partition table are damaged")]
    Damaged,
    /// A sleep area extends past the end of the disk.
    #[error("partition {0}, a sleep area, reaches beyond the end of the disk")]
    BeyondDisk(u32),
    /// More sleep areas than [`MAX_AREAS`].
    #[error("the disk has more than {MAX_AREAS} sleep areas")]
    TooMany,
    /// There are more other partitions than an image can guard.
    #[error("the disk has more than {MAX_PARTITIONS} partitions; an image cannot guard more")]
    TooManyOthers,
    /// A block is neither 512 nor 4096 bytes long.
    #[error("the disk has blocks of {0} bytes; supported are 512 and 4096")]
    BlockSize(u32),
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
}

/// Finds the sleep areas of a disk by its GPT (UEFI 2.10, section 5.3). Nothing is
/// written. A disk without a GPT has no areas. If the primary table is damaged, the
/// backup is used. `scratch` holds at least one page.
///
/// # Errors
///
/// See [`GptError`].
///
/// # Panics
///
/// If `scratch` is empty.
pub fn find_areas<M: Medium>(
    disk: &mut M,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<Areas, GptError> {
    list(disk, block_bytes, scratch).map(|listing| listing.areas)
}

/// Finds the partitions of a disk that are not sleep areas, like [`find_areas`].
pub(crate) fn find_others<M: Medium>(
    disk: &mut M,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<ArrayVec<Partition, MAX_PARTITIONS>, GptError> {
    let listing = list(disk, block_bytes, scratch)?;
    if listing.more {
        return Err(GptError::TooManyOthers);
    }
    Ok(listing.others)
}

fn list<M: Medium>(
    disk: &mut M,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<Listing, GptError> {
    if block_bytes != 512 && block_bytes != 4096 {
        return Err(GptError::BlockSize(block_bytes));
    }
    let mut table = Table {
        blocks: disk.capacity() / u64::from(block_bytes),
        block_bytes: block_bytes.into(),
        disk,
        page: scratch
            .first_mut()
            .expect("finding areas needs room for a page"),
    };
    if !table.has_protective_mbr()? {
        return Ok(Listing::default());
    }
    let last = table.blocks - 1;
    let mut damaged = false;
    for lba in [1, last] {
        match table.listing(lba)? {
            Found::Partitions(listing) => return Ok(listing),
            Found::Damaged => damaged = true,
            Found::Nothing => {}
        }
    }
    if damaged {
        return Err(GptError::Damaged);
    }
    Ok(Listing::default())
}

const AREA_GUID: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

/// The type of the protective MBR's partition.
const PROTECTIVE: u8 = 0xee;

/// The longest entry array that is read; most have 16 KiB.
const MAX_ARRAY_BYTES: u64 = 1 << 20;

const HEADER_BYTES: usize = size_of::<GptHeader>();
const ENTRY_BYTES: usize = size_of::<GptPartitionEntry>();

/// The result of reading one copy of the table.
#[allow(clippy::large_enum_variant, reason = "there is one, and no heap")]
enum Found {
    Partitions(Listing),
    /// A checksum of the table is wrong.
    Damaged,
    Nothing,
}

/// A disk whose table is being read.
struct Table<'t, M> {
    disk: &'t mut M,
    page: &'t mut Page,
    block_bytes: u64,
    blocks: u64,
}

impl<M: Medium> Table<'_, M> {
    /// Reads the page with this byte; returns the page's bytes from it on.
    fn bytes_at(&mut self, byte: u64) -> Result<&[u8], MediumError> {
        let page = byte / PAGE_BYTES * PAGE_BYTES;
        self.disk.read(page, core::slice::from_mut(self.page))?;
        Ok(&self.page.as_bytes()[to_usize(byte - page)..])
    }

    /// Whether the MBR announces a GPT. Without it, an old GPT may remain whose
    /// partitions are now in other use.
    fn has_protective_mbr(&mut self) -> Result<bool, MediumError> {
        if self.blocks < 3 {
            return Ok(false);
        }
        let mbr = &self.bytes_at(0)?[..size_of::<MasterBootRecord>()];
        let mbr: &MasterBootRecord = bytemuck::from_bytes(mbr);
        let types = mbr.partitions.map(|partition| partition.os_indicator);
        Ok(mbr.signature == [0x55, 0xaa] && types.contains(&PROTECTIVE))
    }

    /// Reads the table whose header is in block `lba`.
    fn listing(&mut self, lba: u64) -> Result<Found, GptError> {
        let bytes = self.bytes_at(lba * self.block_bytes)?;
        let header: GptHeader = *bytemuck::from_bytes(&bytes[..HEADER_BYTES]);
        if !header.is_signature_valid() {
            return Ok(Found::Nothing);
        }
        if header.header_crc32 != header.calculate_header_crc32() || header.my_lba.to_u64() != lba {
            return Ok(Found::Damaged);
        }
        match header.get_partition_entry_array_layout() {
            Ok(array) => self.read_array(array, header.partition_entry_array_crc32.0.to_u32()),
            Err(_) => Ok(Found::Damaged),
        }
    }

    /// Reads the entry array page by page, since it may be longer than the scratch. The
    /// entries count only if the checksum is right.
    fn read_array(
        &mut self,
        array: GptPartitionEntryArrayLayout,
        checksum: u32,
    ) -> Result<Found, GptError> {
        let Some(place) = self.place_of(array) else {
            return Ok(Found::Damaged);
        };
        let (blocks, block_bytes) = (self.blocks, self.block_bytes);
        let crc = Crc::<u32>::new(&Crc32::ALGORITHM);
        let mut digest = crc.digest();
        let mut listing = Listing::default();
        let mut taken = Ok(());
        let mut at = place.start;
        while at < place.end {
            let length = (PAGE_BYTES - at % PAGE_BYTES).min(place.end - at);
            let chunk = &self.bytes_at(at)?[..to_usize(length)];
            digest.update(chunk);
            for (number, entry) in entries(chunk, at - place.start, array.entry_size.to_u64()) {
                taken = taken.and_then(|()| listing.take(number, entry, blocks, block_bytes));
            }
            at += length;
        }
        if digest.finalize() != checksum {
            return Ok(Found::Damaged);
        }
        taken.map(|()| Found::Partitions(listing))
    }

    /// The array's byte range on the disk, if it is valid.
    fn place_of(&self, array: GptPartitionEntryArrayLayout) -> Option<Range<u64>> {
        let bytes = array
            .num_bytes_exact()
            .filter(|bytes| *bytes <= MAX_ARRAY_BYTES)?;
        let start = array.start_lba.to_u64().checked_mul(self.block_bytes)?;
        let end = start
            .checked_add(bytes)
            .filter(|end| *end <= self.disk.capacity())?;
        Some(start..end)
    }
}

/// The entries that begin in `chunk`, with their numbers from 1. `chunk` holds the array
/// from byte `begun` to the end of a page. Entries start at multiples of 128 bytes, so
/// their first 128 bytes never cross a page boundary.
fn entries(
    chunk: &[u8],
    begun: u64,
    entry_bytes: u64,
) -> impl Iterator<Item = (u64, &GptPartitionEntry)> {
    let end = begun + chunk.len() as u64;
    (begun.div_ceil(entry_bytes)..end.div_ceil(entry_bytes)).map(move |index| {
        let place = to_usize(index * entry_bytes - begun);
        (
            index + 1,
            bytemuck::from_bytes(&chunk[place..place + ENTRY_BYTES]),
        )
    })
}

impl Listing {
    /// Adds an entry, if it is in use.
    fn take(
        &mut self,
        number: u64,
        entry: &GptPartitionEntry,
        blocks: u64,
        block_bytes: u64,
    ) -> Result<(), GptError> {
        let kind = entry.partition_type_guid;
        if kind == GptPartitionType::UNUSED {
            return Ok(());
        }
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let range = entry
            .lba_range()
            .filter(|range| range.end().to_u64() < blocks);
        let Some(range) = range else {
            // Other partitions are not read, so their range does not matter.
            return match kind == AREA_GUID {
                true => Err(GptError::BeyondDisk(number)),
                false => Ok(()),
            };
        };
        let start = range.start().to_u64() * block_bytes;
        let length = range.num_blocks() * block_bytes;
        if kind == AREA_GUID {
            let area = AreaLocation {
                start,
                length,
                partition: number,
            };
            return self.areas.try_push(area).map_err(|_| GptError::TooMany);
        }
        let partition = Partition {
            start,
            length,
            number,
            guid: entry.unique_partition_guid.to_bytes(),
            name: name_of(entry),
        };
        self.more |= self.others.try_push(partition).is_err();
        Ok(())
    }
}

fn name_of(entry: &GptPartitionEntry) -> [u8; 40] {
    let name = entry.name;
    let mut bytes = [0; 40];
    for (byte, character) in bytes.iter_mut().zip(name.chars()) {
        *byte = match character {
            ' '..='~' => character as u8,
            _ => b'?',
        };
    }
    bytes
}
