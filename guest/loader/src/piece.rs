use poorwill_memory::PhysRange;

use crate::items::Item;

/// The most segments of a kernel.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// The most pieces of a plan: the kernel's segments, and the initramfs.
pub const MAX_PIECES: usize = MAX_SEGMENTS + 1;

/// A part of an item, and the memory that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The item.
    pub item: Item,
    /// Offset in the item, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// Its memory, of at least that length; the rest is filled with zeros.
    pub place: PhysRange,
}
