//! What the power-fail line's node says of the controller of persistent memory.

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::bound::{self, TooMany};
use crate::node::cells;

/// How many ranges of registers that level wear, and of memory that they map, there may be.
pub const MAX_WEAR_RANGES: usize = 4;

/// Ranges of either.
pub type WearRanges = ArrayVec<PhysRange, MAX_WEAR_RANGES>;

/// A register of 32 bits of the controller, and bits of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerBits {
    /// Its address.
    pub address: u64,
    /// The bits.
    pub bits: u32,
}

/// The controller of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryController {
    /// Registers of 64 bits that say where in its cells memory is (`wear-registers`). They are
    /// lost with the power.
    pub wear_registers: WearRanges,
    /// The memory whose place they tell (`wear-levelled`).
    pub wear_levelled: WearRanges,
    /// Bits of which one is set once memory has an error that cannot be corrected
    /// (`memory-error`).
    pub error: Option<ControllerBits>,
    /// What wipes memory: these bits are written (`memory-reset`).
    pub reset: Option<ControllerBits>,
}

impl MemoryController {
    /// Reads it from the node of the power-fail line.
    ///
    /// # Errors
    ///
    /// [`TooMany`].
    pub(crate) fn read(node: FdtNode<'_>) -> Result<Self, TooMany> {
        Ok(MemoryController {
            wear_registers: ranges(node, "wear-registers")?,
            wear_levelled: ranges(node, "wear-levelled")?,
            error: bits(node, "memory-error"),
            reset: bits(node, "memory-reset"),
        })
    }

    /// The pages of its registers: entries of PMP are few, so whole ones.
    pub(crate) fn register_pages(&self) -> impl Iterator<Item = PhysRange> + '_ {
        let bits = self.error.into_iter().chain(self.reset);
        let bits = bits.map(|bits| PhysRange::new(bits.address, 4));
        let registers = self.wear_registers.iter().copied().chain(bits);
        registers.map(|range| PhysRange {
            start: range.start / PAGE_BYTES * PAGE_BYTES,
            end: range.end.next_multiple_of(PAGE_BYTES),
        })
    }
}

/// Ranges as pairs of an address and a length, of two cells each.
fn ranges(node: FdtNode<'_>, name: &'static str) -> Result<WearRanges, TooMany> {
    let mut found = WearRanges::new();
    let mut cells = cells(node, name).into_iter().flatten();
    while let (Some(start), Some(length)) = (long(&mut cells), long(&mut cells)) {
        bound::push(&mut found, name, PhysRange::new(start, length))?;
    }
    Ok(found)
}

/// An address of two cells, and bits.
fn bits(node: FdtNode<'_>, name: &str) -> Option<ControllerBits> {
    let mut cells = cells(node, name)?;
    Some(ControllerBits {
        address: long(&mut cells)?,
        bits: cells.next().filter(|bits| *bits != 0)?,
    })
}

fn long(cells: &mut impl Iterator<Item = u32>) -> Option<u64> {
    Some(u64::from(cells.next()?) << 32 | u64::from(cells.next()?))
}
