use poorwill_memory::PhysRange;

use crate::items::Item;

/// An item, with the memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub item: Item,
    /// Length in bytes.
    pub bytes: u32,
    /// The memory, of at least `bytes` bytes. The rest is filled with zeros.
    pub place: PhysRange,
}
