use poorwill_memory::PhysRange;

use crate::items::Item;

/// Most segments of a kernel that are loaded.
pub(crate) const MAX_SEGMENTS: usize = 16;

/// Most pieces of a plan: the kernel's, and the initramfs.
pub const MAX_PIECES: usize = MAX_SEGMENTS + 1;

/// A part of an item, and the memory that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Of which item.
    pub item: Item,
    /// Where in the item it begins.
    pub offset: u32,
    /// Its bytes.
    pub bytes: u32,
    /// Its place, at least as long; the rest of that becomes zeros.
    pub place: PhysRange,
}
