//! Driver for parallel NOR flash with CFI and Intel's and Sharp's command set (0x0001).
//!
//! It follows JESD68.01 (CFI) and the published description of the extended command set.
//! A *bank* is the unit of an access: one chip, or several chips side by side, each on
//! its own lanes of the bus, which get each command together. [`Cfi::start`] takes over a
//! bank in any mode and reads its geometry; [`Part::new`] makes some of its blocks
//! available as NOR flash. After each operation the chips are in read-array mode.
//!
//! [`read_mode`] determines the mode in which an OS has left a bank, so that [`set_mode`]
//! can restore it after a power-on.
//!
//! The [`Clock`](poorwill_clock::Clock) limits each wait to the times in the chips' query table.

mod bank;
mod error;
mod mode;
mod part;
mod query;
mod registers;

pub use bank::{Cfi, read_array, reads_as_zeros};
pub use error::CfiError;
pub use mode::{Mode, ModeError, read_mode, set_mode};
pub use part::{Part, UNIT_BYTES};
pub use query::{Geometry, Region};
pub use registers::Registers;

#[cfg(test)]
mod tests;
