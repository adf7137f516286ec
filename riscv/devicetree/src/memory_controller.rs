//! The controller of persistent memory, from the power-fail line's node.

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::{PAGE_BYTES, PhysRange};

use crate::bound::{self, TooMany};
use crate::node::cells;

/// Maximum number of ranges of wear-levelling registers, and of memory that they map.
pub const MAX_WEAR_RANGES: usize = 4;

/// Ranges of wear-levelling registers, or of the memory that they map.
pub type WearRanges = ArrayVec<PhysRange, MAX_WEAR_RANGES>;

/// Bits of a 32-bit register of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerBits {
    /// Address of the register.
    pub address: u64,
    /// The bits.
    pub bits: u32,
}

/// The controller of persistent memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryController {
    /// 64-bit registers that map memory to its cells (`wear-registers`). A power failure clears
    /// them.
    pub wear_registers: WearRanges,
    /// The memory that these registers map (`wear-levelled`).
    pub wear_levelled: WearRanges,
    /// Error bits: one of them is set after an uncorrectable memory error (`memory-error`).
    pub error: Option<ControllerBits>,
    /// Writing these bits wipes memory (`memory-reset`).
    pub reset: Option<ControllerBits>,
}

impl MemoryController {
    /// Reads the controller from the node of the power-fail line.
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

    /// The pages of the controller's registers. PMP closes whole pages, since PMP entries are few.
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

/// Reads ranges: pairs of an address and a length, of two cells each.
fn ranges(node: FdtNode<'_>, name: &'static str) -> Result<WearRanges, TooMany> {
    let mut found = WearRanges::new();
    let mut cells = cells(node, name).into_iter().flatten();
    while let (Some(start), Some(length)) = (long(&mut cells), long(&mut cells)) {
        bound::push(&mut found, name, PhysRange::new(start, length))?;
    }
    Ok(found)
}

/// Reads an address of two cells, and bits.
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
