//! Text of a domain that waits for the console.

use poorwill_log::Lines;

/// Text that waits for the console.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The domain's own.
    pub(super) own: Lines,
    /// The firmware's, about the domain.
    pub(super) firmware: Lines,
}

impl Waiting {
    pub(super) const fn new() -> Self {
        Waiting {
            own: Lines::new(),
            firmware: Lines::new(),
        }
    }
}
