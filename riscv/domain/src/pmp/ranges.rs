use arrayvec::ArrayVec;
use poorwill_memory::PhysRange;
use thiserror::Error;

use super::entry::ALL_ADDRESSES;

/// Maximum number of ranges of each kind (open, closed, read-only) in a plan.
pub const MAX_PLANNED: usize = 64;

/// More ranges of one kind than [`MAX_PLANNED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the PMP plan has more than {MAX_PLANNED} ranges of one kind")]
pub struct TooManyRanges;

/// Ascending, non-empty ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(ArrayVec<PhysRange, MAX_PLANNED>);

impl Ranges {
    /// The addresses in at least one of the ranges, which may come in any order.
    pub(super) fn union(
        ranges: impl IntoIterator<Item = PhysRange>,
    ) -> Result<Self, TooManyRanges> {
        let mut joined = ArrayVec::<PhysRange, MAX_PLANNED>::new();
        for range in ranges.into_iter().filter(|range| range.length() > 0) {
            joined.try_push(range).map_err(|_| TooManyRanges)?;
        }
        join(&mut joined);
        Ok(Ranges(joined))
    }

    /// The addresses outside all ranges.
    pub(super) fn complement(&self) -> Result<Self, TooManyRanges> {
        let starts = self.iter().map(|range| range.start);
        let ends = self.iter().map(|range| range.end);
        let gaps = core::iter::once(ALL_ADDRESSES.start)
            .chain(ends)
            .zip(starts.chain([ALL_ADDRESSES.end]))
            .map(|(start, end)| PhysRange { start, end });
        Self::union(gaps)
    }

    /// The addresses in these ranges but not in `others`.
    pub(super) fn without(&self, others: &Ranges) -> Result<Self, TooManyRanges> {
        if self.0.is_empty() {
            return Ok(Ranges::default());
        }
        // The complement of (complement of these, joined with the others).
        let outside = self.complement()?;
        Self::union(outside.iter().chain(others.iter()))?.complement()
    }

    /// Each range cut to whole units of 2^bits bytes.
    pub(super) fn shrunk(&self, bits: u32) -> Result<Self, TooManyRanges> {
        Self::union(self.iter().map(|range| PhysRange {
            start: up(range.start, bits),
            end: down(range.end, bits),
        }))
    }

    /// Each range grown to whole units of 2^bits bytes.
    pub(super) fn grown(&self, bits: u32) -> Result<Self, TooManyRanges> {
        Self::union(self.iter().map(|range| PhysRange {
            start: down(range.start, bits),
            end: up(range.end, bits),
        }))
    }

    /// Returns whether one range contains all of `inner`.
    pub(super) fn contain(&self, inner: PhysRange) -> bool {
        self.iter()
            .any(|range| range.start <= inner.start && inner.end <= range.end)
    }

    /// Returns whether one range overlaps `other`.
    pub(super) fn overlap(&self, other: PhysRange) -> bool {
        self.iter().any(|range| range.overlaps(&other))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = PhysRange> + '_ {
        self.0.iter().copied()
    }
}

/// Sorts non-empty ranges, and joins those that overlap or touch.
pub(crate) fn join<const N: usize>(ranges: &mut ArrayVec<PhysRange, N>) {
    ranges.sort_unstable_by_key(|range| range.start);
    // In place: a copy of the list takes longer than all else here.
    let mut count = 0;
    for place in 0..ranges.len() {
        let range = ranges[place];
        match ranges[..count].last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => {
                ranges[count] = range;
                count += 1;
            }
        }
    }
    ranges.truncate(count);
}

/// The greatest multiple of 2^bits at or below `address`.
fn down(address: u64, bits: u32) -> u64 {
    address >> bits << bits
}

/// The least multiple of 2^bits at or above `address`, a physical address.
fn up(address: u64, bits: u32) -> u64 {
    down(address + ((1 << bits) - 1), bits)
}

/// Cuts a range into naturally aligned powers of two.
pub(super) fn aligned_blocks(range: PhysRange) -> impl Iterator<Item = PhysRange> + Clone {
    let mut start = range.start;
    core::iter::from_fn(move || {
        let left = range.end.checked_sub(start).filter(|left| *left > 0)?;
        let bits = left.ilog2().min(start.trailing_zeros());
        let block = PhysRange::new(start, 1 << bits);
        start = block.end;
        Some(block)
    })
}
