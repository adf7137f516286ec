//! Encoding of addresses and sizes of a node's children.

use core::fmt;

use arrayvec::ArrayVec;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::PhysRange;
use thiserror::Error;

use crate::node::cell;

/// Maximum number of cells of an address or a size. The Devicetree Specification 0.4, 2.3.5, has no
/// limit; Linux accepts four.
const MAX_CELLS: u32 = 4;

pub(crate) type Reg = ArrayVec<u8, { 2 * 4 * MAX_CELLS as usize }>;

/// Why a range cannot be described below a node.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CellsError {
    #[error("the device tree cannot name {start:#x}..{end:#x} with {cells}", start = .range.start, end = .range.end)]
    Unnamed {
        range: PhysRange,
        /// Cells of the parent.
        cells: Cells,
    },
    /// The cells of `/reserved-memory` differ from the root's; an OS would ignore the node.
    #[error(
        "/reserved-memory in the device tree has {own}, and its root {of_root}: an OS ignores it"
    )]
    Differ {
        /// Cells of `/reserved-memory`.
        own: Cells,
        /// Cells of the root.
        of_root: Cells,
    },
}

/// `#address-cells` and `#size-cells` of a node: the number of 32-bit words of its children's
/// addresses and sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Cells of addresses.
    pub address: u32,
    /// Cells of sizes.
    pub size: u32,
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} address and {} size cells", self.address, self.size)
    }
}

impl Cells {
    pub(crate) const ADDRESS: &'static str = "#address-cells";
    pub(crate) const SIZE: &'static str = "#size-cells";

    /// Cells of the node's children; the specification's defaults if absent.
    pub(crate) fn below(node: FdtNode<'_>) -> Self {
        Cells {
            address: cell(node, Cells::ADDRESS).unwrap_or(2),
            size: cell(node, Cells::SIZE).unwrap_or(1),
        }
    }

    /// Encodes a range as `reg` of a child.
    ///
    /// # Errors
    ///
    /// [`CellsError::Unnamed`].
    pub(crate) fn reg(self, range: PhysRange) -> Result<Reg, CellsError> {
        let mut reg = Reg::new();
        let address = write(&mut reg, range.start, self.address);
        let size = write(&mut reg, range.length(), self.size);
        let written = address.and(size);
        written.ok_or(CellsError::Unnamed { range, cells: self })?;
        Ok(reg)
    }
}

/// Appends the value in this number of cells, if it fits.
fn write(reg: &mut Reg, value: u64, cells: u32) -> Option<()> {
    let bytes = value.to_be_bytes();
    let length = 4 * cells as usize;
    if !(1..=MAX_CELLS).contains(&cells) {
        return None;
    }
    let zeros = length.saturating_sub(bytes.len());
    let (cut, kept) = bytes.split_at(bytes.len() - (length - zeros));
    if cut.iter().any(|byte| *byte != 0) {
        return None;
    }
    reg.extend(core::iter::repeat_n(0, zeros));
    reg.try_extend_from_slice(kept).ok()
}
