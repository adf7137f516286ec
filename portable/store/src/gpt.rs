mod area;
mod claims;
mod error;
mod table;
mod whole_disk;

use arrayvec::ArrayVec;
use gpt_disk_types::{GptPartitionEntry, GptPartitionType, guid};
use poorwill_medium::Medium;
use poorwill_memory::Page;

use area::MAX_NUMBER;
pub use area::{AREA_TYPE, AreaLocation, Areas, MAX_AREAS, MAX_PARTITIONS};
pub use error::GptError;
use table::{Blocks, Copy, Header, PRIMARY, Table};

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

/// The partitions of a disk.
#[derive(Clone, Debug, Default)]
struct Listing {
    areas: Areas,
    /// The number of the first area, also if it cannot be used.
    first_area: Option<u32>,
    /// The reason why an area cannot be used.
    fault: Option<GptError>,
    others: ArrayVec<Partition, MAX_PARTITIONS>,
    /// There are more partitions than [`MAX_PARTITIONS`].
    more: bool,
}

/// Finds the sleep areas of a disk by its GPT. Nothing is written. A disk without a GPT has no
/// areas. It is an error if Linux does not use the table that has an area, or if anything else
/// claims the area's blocks. `scratch` holds at least one page.
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
    let mut table = Table::new(disk, block_bytes, first_page(scratch))?;
    let Some(mbr) = table.protective_mbr()? else {
        return Ok(Areas::default());
    };
    let mut listing = Listing::default();
    let header = match list(&mut table, PRIMARY, &mut listing)? {
        State::Valid(header) => header,
        primary => {
            check_unused(&mut table, &primary, listing)?;
            return Ok(Areas::default());
        }
    };
    if let Some(fault) = listing.fault {
        return Err(fault);
    }
    if let Some(area) = listing.first_area {
        claims::check(&mut table, &header, &mbr, &listing.areas)?;
        if let Some(content) = whole_disk::find(&mut table, &header)? {
            return Err(GptError::WholeDisk { area, content });
        }
    }
    Ok(listing.areas)
}

/// Returns whether Linux finds a GPT on the disk. `scratch` holds at least one page.
///
/// # Errors
///
/// See [`GptError`].
///
/// # Panics
///
/// If `scratch` is empty.
pub fn has_table<M: Medium>(
    disk: &mut M,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<bool, GptError> {
    let mut table = Table::new(disk, block_bytes, first_page(scratch))?;
    if table.protective_mbr()?.is_none() {
        return Ok(false);
    }
    let state = list(&mut table, PRIMARY, &mut Listing::default())?;
    Ok(matches!(state, State::Valid(_)))
}

/// Finds the partitions that Linux shows, except sleep areas. It shows no partition of a table
/// that it does not use, and may then use the whole disk, as without a GPT.
pub(crate) fn find_others<M: Medium>(
    disk: &mut M,
    block_bytes: u32,
    scratch: &mut [Page],
) -> Result<ArrayVec<Partition, MAX_PARTITIONS>, GptError> {
    let mut table = Table::new(disk, block_bytes, first_page(scratch))?;
    if table.protective_mbr()?.is_none() {
        return Ok(ArrayVec::new());
    }
    let mut listing = Listing::default();
    match list(&mut table, PRIMARY, &mut listing)? {
        State::Valid(_) if listing.more => Err(GptError::TooManyOthers),
        State::Valid(_) => Ok(listing.others),
        State::Longer | State::Damaged | State::Absent => Ok(ArrayVec::new()),
    }
}

fn first_page(scratch: &mut [Page]) -> &mut Page {
    scratch
        .first_mut()
        .expect("finding areas needs room for a page")
}

/// One copy of a table.
enum State {
    Valid(Header),
    /// It is for a longer disk.
    Longer,
    /// A checksum is wrong, or another rule is broken.
    Damaged,
    Absent,
}

/// Lists the partitions of the copy whose header is in block `lba`. They do not count if it is
/// damaged.
fn list<M: Medium>(
    table: &mut Table<'_, M>,
    lba: u64,
    listing: &mut Listing,
) -> Result<State, GptError> {
    let (header, state) = match table.copy(lba)? {
        Copy::Absent => return Ok(State::Absent),
        Copy::Damaged => return Ok(State::Damaged),
        Copy::Unsupported(error) => return Err(error),
        Copy::Longer(header) => (header, State::Longer),
        Copy::Valid(header) => (header, State::Valid(header)),
    };
    let (blocks, block_bytes) = (table.blocks, table.block_bytes);
    let is_whole = table.entries(&header, &mut |number, entry| {
        listing.take(number, entry, blocks, block_bytes);
    })?;
    Ok(if is_whole { state } else { State::Damaged })
}

/// Checks that a table whose primary copy is unusable has no sleep area: neither this copy,
/// of which `listing` has the partitions, nor the backup.
// Not inlined, since most disks do not need its frame.
#[inline(never)]
fn check_unused<M: Medium>(
    table: &mut Table<'_, M>,
    primary: &State,
    mut listing: Listing,
) -> Result<(), GptError> {
    if let (State::Longer, Some(area)) = (primary, listing.first_area) {
        return Err(listing.fault.unwrap_or(GptError::LongerDisk(area)));
    }
    listing = Listing::default();
    let last = table.blocks - 1;
    match (primary, list(table, last, &mut listing)?) {
        (_, State::Valid(_) | State::Longer) => {
            (listing.first_area).map_or(Ok(()), |area| Err(GptError::OnlyBackup(area)))
        }
        (State::Damaged, _) | (_, State::Damaged) => Err(GptError::Damaged),
        (_, State::Absent) => Ok(()),
    }
}

const AREA_GUID: GptPartitionType = GptPartitionType(guid!("3063e3c3-c55c-4395-bc5f-8f60545ad228"));

impl Listing {
    /// Adds an entry that is in use.
    fn take(&mut self, number: u32, entry: &GptPartitionEntry, blocks: u64, block_bytes: u64) {
        let kind = entry.partition_type_guid;
        let shown = place_of(number, entry, blocks);
        if kind == AREA_GUID {
            self.first_area = self.first_area.or(Some(number));
            let added = shown.and_then(|shown| self.add_area(number, shown, block_bytes));
            self.fault = self.fault.or(added.err());
        } else if let Ok(Blocks { first, last }) = shown {
            let partition = Partition {
                start: first * block_bytes,
                length: (last - first + 1) * block_bytes,
                number,
                guid: entry.unique_partition_guid.to_bytes(),
                name: name_of(entry),
            };
            self.more |= self.others.try_push(partition).is_err();
        }
    }

    fn add_area(&mut self, number: u32, place: Blocks, block_bytes: u64) -> Result<(), GptError> {
        let area = AreaLocation {
            start: place.first * block_bytes,
            length: (place.last - place.first + 1) * block_bytes,
            partition: number,
        };
        self.areas.try_push(area).map_err(|_| GptError::TooMany)
    }
}

/// The blocks of a partition, if Linux shows it.
fn place_of(number: u32, entry: &GptPartitionEntry, blocks: u64) -> Result<Blocks, GptError> {
    let place = Blocks::of(entry).ok_or(GptError::Reversed(number))?;
    if place.last >= blocks {
        return Err(GptError::BeyondDisk(number));
    }
    if number > MAX_NUMBER {
        return Err(GptError::Unseen(number));
    }
    Ok(place)
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
