//! Places in translated code, and those that were found lately.

/// A place in translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Number of the block.
    pub(super) block: usize,
    /// Number of the place in the block.
    pub(super) place: usize,
}

/// Places that were found lately, by the hash of what they were found by. They stay right until all
/// blocks are dropped.
#[derive(Debug)]
pub(super) struct Recent([(u32, Found); Recent::ENTRIES]);

impl Recent {
    /// A power of two.
    const ENTRIES: usize = 64;
    /// No word has this number, nor has an instruction of a block.
    const NONE: (u32, Found) = (u32::MAX, Found { block: 0, place: 0 });
    pub(super) const EMPTY: Recent = Recent([Self::NONE; Self::ENTRIES]);

    pub(super) fn find(&self, key: u32) -> Option<Found> {
        let (own, found) = self.0[key as usize % Self::ENTRIES];
        (own == key).then_some(found)
    }

    pub(super) fn keep(&mut self, key: u32, found: Found) {
        self.0[key as usize % Self::ENTRIES] = (key, found);
    }
}
