use poorwill_memory::PhysRange;

use crate::items::Item;

/// The most segments of a kernel.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// The most pieces of a plan: the kernel's segments, and the initramfs.
pub const MAX_PIECES: usize = MAX_SEGMENTS + 1;

/// A part of an item, with the memory for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub item: Item,
    /// Offset in the item, in bytes.
    pub offset: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// The memory, of at least `bytes` bytes. The rest is filled with zeros.
    pub place: PhysRange,
}
