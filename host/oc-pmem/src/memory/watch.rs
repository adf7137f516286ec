//! What happens inside the memory, for tests of its contents.

use crate::time::Time;

/// Which copy of a line devices hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// The line itself.
    Data,
    /// Its parity, in another DIMM.
    Parity,
}

/// How a read gets its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// From its devices.
    Devices,
    /// From its one live device: half of it. The read of its parity is told next, if parity has a place.
    Half,
    /// From a row buffer that has not been programmed yet.
    RowBuffer(Copy),
    /// From its parity.
    Rebuilt,
}

/// Is told what happens inside the memory. `()` ignores it.
pub trait Watch {
    /// A row buffer took a write to the slot.
    fn accepted(&mut self, copy: Copy, slot: u64) {
        _ = (copy, slot);
    }

    /// Devices hold the copy's last accepted write from `end` on.
    fn programmed(&mut self, copy: Copy, slot: u64, end: Time) {
        _ = (copy, slot, end);
    }

    /// A read of the slot is served, from `start` on. One that returns the containment bit is not told.
    fn read(&mut self, slot: u64, served: Served, start: Time) {
        _ = (slot, served, start);
    }

    /// Start-Gap gave the line of a slot to another one.
    fn moved(&mut self, from: u64, to: u64) {
        _ = (from, to);
    }
}

impl Watch for () {}
