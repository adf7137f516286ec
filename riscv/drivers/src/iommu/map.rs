use poorwill_memory::{PAGE_BYTES, PhysRange};

use super::memory::{TableMemory, TablePages};
use super::register::PAGE_NUMBER;
use super::{Capabilities, IommuError};

/// Memory that a device may access, in whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaRange {
    /// Physical addresses; the device uses the same ones.
    pub range: PhysRange,
    /// Whether the device may write. It may always read: tables without it are reserved.
    pub is_writable: bool,
    /// Whether it is open at first; see [`TranslatingIommu::set_open`](super::TranslatingIommu::set_open).
    pub is_open: bool,
}

/// An identity map: each address of its ranges leads to itself, all others fault.
///
/// It consists of first-stage tables. An IOMMU has the modes of its machine's harts (5.3), and each
/// hart with an OS has Sv39. Second-stage tables need the H extension, and a root of 16 KiB. First
/// stages reach fewer addresses, 256 GiB with Sv39, since addresses are signed; above that, Sv48.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentityMap {
    root: u64,
    mode: Mode,
    /// The address space number (PSCID) of this map alone.
    space: u32,
}

/// A translation mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Sv39,
    Sv48,
}

/// Entries of page tables (RISC-V privileged specification, 12.4).
mod entry {
    pub(super) const VALID: u64 = 1 << 0;
    pub(super) const READ: u64 = 1 << 1;
    pub(super) const WRITE: u64 = 1 << 2;
    /// Devices have user mode's rights.
    pub(super) const USER: u64 = 1 << 4;
    /// Accessed and dirty: the IOMMU does not set them.
    pub(super) const USED: u64 = 1 << 6 | 1 << 7;
}

const PAGE_BITS: u32 = PAGE_BYTES.trailing_zeros();
/// Bits of an address that one level translates.
const LEVEL_BITS: u32 = 9;

/// Address space numbers have 20 bits (2.1.3.3).
const MAX_SPACE: u32 = (1 << 20) - 1;

impl Mode {
    fn levels(self) -> u32 {
        match self {
            Mode::Sv39 => 3,
            Mode::Sv48 => 4,
        }
    }

    /// Its number in a context (2.1.3.4).
    fn code(self) -> u64 {
        match self {
            Mode::Sv39 => 8,
            Mode::Sv48 => 9,
        }
    }

    /// The pages that map a range, the largest that its alignment allows: address and level.
    fn leaves(self, range: PhysRange) -> impl Iterator<Item = (u64, u32)> {
        let mut address = range.start;
        core::iter::from_fn(move || {
            let mut larger = (1..self.levels()).rev();
            let level = larger.find(|level| fits(address, range.end, *level));
            let leaf = (address, level.unwrap_or(0));
            (address < range.end).then(|| {
                address += bytes(leaf.1);
                leaf
            })
        })
    }

    /// The first address that is not mapped to itself: addresses are signed.
    fn limit(self) -> u64 {
        1 << (PAGE_BITS + LEVEL_BITS * self.levels() - 1)
    }
}

impl IdentityMap {
    /// The most pages for a map of `ranges` ranges: a root, and at each lower level the two tables
    /// of a range's ends.
    #[must_use]
    pub const fn max_pages(ranges: u64) -> u64 {
        1 + ranges * 2 * 3
    }

    /// Writes the tables. Ranges may come in any order; an empty one maps nothing.
    pub(super) fn build(
        memory: &impl TableMemory,
        pages: &mut TablePages,
        ranges: impl Iterator<Item = DmaRange> + Clone,
        (capabilities, space): (&Capabilities, u32),
    ) -> Result<Self, IommuError> {
        if space > MAX_SPACE {
            return Err(IommuError::TooManyMaps);
        }
        let mode = mode_for(ranges.clone(), capabilities)?;
        let map = IdentityMap {
            root: pages.take(memory)?,
            mode,
            space,
        };
        for range in ranges {
            map.add(memory, pages, range)?;
        }
        Ok(map)
    }

    /// The address space number.
    pub(super) fn space(&self) -> u32 {
        self.space
    }

    /// The first-stage context (2.1.3.4).
    pub(super) fn first_stage(&self) -> u64 {
        self.mode.code() << 60 | self.root >> PAGE_BITS
    }

    /// Maps a range, with the largest pages that its alignment allows.
    fn add(
        &self,
        memory: &impl TableMemory,
        pages: &mut TablePages,
        DmaRange {
            range,
            is_writable,
            is_open,
        }: DmaRange,
    ) -> Result<(), IommuError> {
        let write = if is_writable { entry::WRITE } else { 0 };
        let valid = if is_open { entry::VALID } else { 0 };
        let rights = valid | entry::READ | write | entry::USER | entry::USED;
        self.mode.leaves(range).try_for_each(|(address, level)| {
            let place = self.place(memory, pages, address, level)?;
            if memory.read(place) != 0 {
                return Err(IommuError::Overlap(address));
            }
            memory.write(place, number_of(address) | rights);
            Ok(())
        })
    }

    /// Opens or shuts a range that the map was built with. Its tables stay, and its rights.
    pub(super) fn set_open(
        &self,
        memory: &impl TableMemory,
        range: PhysRange,
        is_open: bool,
    ) -> Result<(), IommuError> {
        let mut none = TablePages::new(PhysRange::new(0, 0));
        self.mode.leaves(range).try_for_each(|(address, level)| {
            let place = self.place(memory, &mut none, address, level)?;
            let found = memory.read(place);
            if found & entry::READ == 0 {
                return Err(IommuError::Unmapped(address));
            }
            let valid = if is_open { entry::VALID } else { 0 };
            memory.write(place, found & !entry::VALID | valid);
            Ok(())
        })
    }

    /// The address of the entry for `address` in the table of `level`. Adds missing tables.
    fn place(
        &self,
        memory: &impl TableMemory,
        pages: &mut TablePages,
        address: u64,
        level: u32,
    ) -> Result<u64, IommuError> {
        let mut table = self.root;
        let mut at = self.mode.levels() - 1;
        loop {
            let index = address >> (PAGE_BITS + LEVEL_BITS * at) & ((1 << LEVEL_BITS) - 1);
            let place = table + index * size_of::<u64>() as u64;
            if at == level {
                return Ok(place);
            }
            let found = memory.read(place);
            if found & entry::READ != 0 {
                return Err(IommuError::Overlap(address));
            }
            table = if found == 0 {
                let new = pages.take(memory)?;
                memory.write(place, number_of(new) | entry::VALID);
                new
            } else {
                found >> PAGE_NUMBER << PAGE_BITS
            };
            at -= 1;
        }
    }
}

/// The page number of an address, at its place in an entry.
fn number_of(address: u64) -> u64 {
    address >> PAGE_BITS << PAGE_NUMBER
}

/// The bytes that an entry of `level` maps.
fn bytes(level: u32) -> u64 {
    1 << (PAGE_BITS + LEVEL_BITS * level)
}

/// Whether a page of `level` lies at `address` and ends by `end`.
fn fits(address: u64, end: u64, level: u32) -> bool {
    address.is_multiple_of(bytes(level)) && end.saturating_sub(address) >= bytes(level)
}

/// The mode that reaches all ranges; checks them.
fn mode_for(
    ranges: impl Iterator<Item = DmaRange> + Clone,
    capabilities: &Capabilities,
) -> Result<Mode, IommuError> {
    let widest = if capabilities.has_sv48 {
        Mode::Sv48
    } else {
        Mode::Sv39
    };
    let limit = widest.limit().min(1 << capabilities.address_bits);
    for DmaRange { range, .. } in ranges.clone() {
        let is_whole =
            range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES);
        if !is_whole {
            return Err(IommuError::Misaligned(range));
        }
        if range.end > limit {
            return Err(IommuError::OutOfReach { range, limit });
        }
    }
    let end = ranges.map(|range| range.range.end).max();
    Ok(if end.unwrap_or(0) <= Mode::Sv39.limit() {
        Mode::Sv39
    } else {
        Mode::Sv48
    })
}
