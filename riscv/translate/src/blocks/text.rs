//! The OS's text: what its tables map as executable, and not as writable, around `stvec`. The core
//! closes it to stores of translated code. The interpreter executes these, and so it sees them.
//!
//! The range is a claim of the OS. It decides which stores fault, and no more.

use poorwill_memory::PhysRange;

/// Addresses with text, mapped at one distance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The first address.
    pub(super) start: u64,
    pub(super) physical: PhysRange,
}

impl Found {
    pub(super) const NOTHING: Found = Found {
        start: 0,
        physical: PhysRange::EMPTY,
    };
}

/// The text that was found last, and what the core closes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub(super) found: Found,
    /// The core was not asked about it yet.
    pub(super) is_new: bool,
    pub(super) closed: PhysRange,
}

impl Text {
    pub(super) const NONE: Text = Text {
        found: Found::NOTHING,
        is_new: false,
        closed: PhysRange::EMPTY,
    };

    /// Returns whether translated code cannot store to a physical page.
    pub(super) fn has(&self, physical: u64) -> bool {
        self.closed.contains(physical)
    }
}
