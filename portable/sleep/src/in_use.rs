use core::fmt;

use arrayvec::ArrayVec;
use poorwill_pci::InUse;

/// Maximum number of functions in use that are named; the others are counted.
const MAX_NAMED: usize = 8;

/// A PCI function that the OS has left in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionInUse {
    /// The index of its host bridge, which is Linux's PCI domain.
    pub host: usize,
    /// The function.
    pub found: InUse,
}

impl fmt::Display for FunctionInUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            0 => write!(f, "{}", self.found),
            domain => write!(f, "{domain:04x}:{}", self.found),
        }
    }
}

/// The PCI functions that the OS has left in use. A power-off destroys their state.
#[derive(Clone, Debug, Default)]
pub struct LeftInUse {
    named: ArrayVec<FunctionInUse, MAX_NAMED>,
    /// The number of further functions.
    more: usize,
}

impl LeftInUse {
    /// Adds a function.
    pub fn add(&mut self, function: FunctionInUse) {
        if self.named.try_push(function).is_err() {
            self.more += 1;
        }
    }

    /// The named functions.
    pub(crate) fn named(&self) -> &[FunctionInUse] {
        &self.named
    }

    /// The number of further functions.
    pub(crate) fn more(&self) -> usize {
        self.more
    }
}
