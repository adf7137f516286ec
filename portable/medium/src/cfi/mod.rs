//! Parallel NOR flash that describes itself (CFI) and takes the commands of
//! Intel's and Sharp's chips (command set 0x0001).
//!
//! Written to JESD68.01 (CFI) and to the extended command set's published
//! description. A *bank* is what one access reaches: one chip, or several side
//! by side, each on its lanes of the bus, which are given every command at once.
//! [`Cfi::start`] takes a bank over in whatever mode the OS left it and learns
//! its geometry; [`Part::new`] makes a NOR flash of some of its blocks. After
//! each operation the chips are back in the mode in which they read as memory.
//!
//! [`read_mode`] tells in which mode an OS has left a bank, so that [`set_mode`] puts it back
//! at another power-on.
//!
//! Every wait ends by the [`Clock`](crate::Clock), within the times that the
//! chips ask for.

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
