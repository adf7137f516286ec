use arrayvec::ArrayVec;
use thiserror::Error;

use crate::page::PAGE_BYTES;

/// The most ranges of a map.
pub const MAX_RANGES: usize = 32;

/// A range of physical addresses, `start` included, `end` not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhysRange {
    /// The first address.
    pub start: u64,
    /// The first address after the range.
    pub end: u64,
}

impl PhysRange {
    /// No addresses.
    pub const EMPTY: PhysRange = PhysRange { start: 0, end: 0 };

    /// The range of `length` bytes from `start`, cut off at the top of the address space.
    #[must_use]
    pub fn new(start: u64, length: u64) -> Self {
        PhysRange {
            start,
            end: start.saturating_add(length),
        }
    }

    /// The length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether `address` lies in the range.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// The smallest range with both.
    #[must_use]
    pub fn hull(self, other: PhysRange) -> PhysRange {
        PhysRange {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    /// Whether the two ranges share an address.
    #[must_use]
    pub fn overlaps(&self, other: &PhysRange) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The reason why ranges do not form a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryMapError {
    /// More ranges than [`MAX_RANGES`].
    #[error("more than {MAX_RANGES} separate memory ranges")]
    TooManyRanges,
    /// Two memory ranges overlap at this address.
    #[error("memory ranges overlap at {0:#x}")]
    Overlap(u64),
    /// No memory is left for the OS.
    #[error("no memory is left for the OS")]
    Empty,
}

/// The ranges of OS memory, which a sleep saves and a wake restores.
/// [`OsMemory`](crate::OsMemory) gives access to them.
///
/// Pages are numbered from 0 in ascending order of address, without holes. A page map
/// uses this number, the *index*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMap {
    ranges: ArrayVec<PhysRange, MAX_RANGES>,
    /// All memory at the machine's start.
    installed: ArrayVec<PhysRange, MAX_RANGES>,
}

impl MemoryMap {
    /// The ranges of `memory` without those of `reserved`, each in any order. Memory is
    /// rounded inwards to whole pages, reserved ranges outwards.
    ///
    /// # Errors
    ///
    /// Overlapping memory ranges, more than [`MAX_RANGES`] ranges, or no memory left.
    pub fn new(memory: &[PhysRange], reserved: &[PhysRange]) -> Result<Self, MemoryMapError> {
        let mut ranges = ArrayVec::new();
        for range in memory {
            push(&mut ranges, shrink_to_pages(*range))?;
        }
        ranges.sort_unstable_by_key(|range: &PhysRange| range.start);
        if let Some(pair) = ranges.windows(2).find(|pair| pair[0].overlaps(&pair[1])) {
            return Err(MemoryMapError::Overlap(pair[1].start));
        }
        join_neighbours(&mut ranges);
        let installed = ranges.clone();
        for hole in reserved.iter().filter(|hole| hole.length() > 0) {
            ranges = without(&ranges, grow_to_pages(*hole))?;
        }
        if ranges.is_empty() {
            return Err(MemoryMapError::Empty);
        }
        Ok(MemoryMap { ranges, installed })
    }

    /// The ranges, ascending and disjoint, in whole pages.
    #[must_use]
    pub fn ranges(&self) -> &[PhysRange] {
        &self.ranges
    }

    /// Whether the machine started with all of `range` as memory, for any owner.
    #[must_use]
    pub fn is_installed(&self, range: &PhysRange) -> bool {
        (self.installed.iter()).any(|all| all.start <= range.start && range.end <= all.end)
    }

    /// The number of pages in all ranges.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.ranges
            .iter()
            .map(|range| range.length() / PAGE_BYTES)
            .sum()
    }

    /// Whether the `length` bytes from `address` are all OS memory.
    #[must_use]
    pub fn contains(&self, address: u64, length: u64) -> bool {
        address.checked_add(length).is_some_and(|end| {
            self.ranges
                .iter()
                .any(|range| range.start <= address && end <= range.end)
        })
    }
}

fn join_neighbours(ranges: &mut ArrayVec<PhysRange, MAX_RANGES>) {
    let mut joined = ArrayVec::<PhysRange, MAX_RANGES>::new();
    for range in ranges.drain(..) {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    *ranges = joined;
}

fn push(
    ranges: &mut ArrayVec<PhysRange, MAX_RANGES>,
    range: PhysRange,
) -> Result<(), MemoryMapError> {
    if range.length() == 0 {
        return Ok(());
    }
    ranges
        .try_push(range)
        .map_err(|_| MemoryMapError::TooManyRanges)
}

fn without(
    ranges: &[PhysRange],
    hole: PhysRange,
) -> Result<ArrayVec<PhysRange, MAX_RANGES>, MemoryMapError> {
    let mut left = ArrayVec::new();
    for range in ranges {
        if range.overlaps(&hole) {
            push(
                &mut left,
                PhysRange {
                    start: range.start,
                    end: hole.start.max(range.start),
                },
            )?;
            push(
                &mut left,
                PhysRange {
                    start: hole.end.min(range.end),
                    end: range.end,
                },
            )?;
        } else {
            push(&mut left, *range)?;
        }
    }
    Ok(left)
}

fn shrink_to_pages(range: PhysRange) -> PhysRange {
    PhysRange {
        start: range
            .start
            .checked_next_multiple_of(PAGE_BYTES)
            .unwrap_or(u64::MAX),
        end: range.end / PAGE_BYTES * PAGE_BYTES,
    }
}

fn grow_to_pages(range: PhysRange) -> PhysRange {
    PhysRange {
        start: range.start / PAGE_BYTES * PAGE_BYTES,
        end: range
            .end
            .checked_next_multiple_of(PAGE_BYTES)
            .unwrap_or(u64::MAX),
    }
}
