//! The critical guest on socket 1 of two, seen from outside.

mod critical;
mod entries;
mod growing;
mod linux;
mod start;
mod steady;

pub use crate::plan::Role;
pub use critical::{Critical, Part, Seen, Together, Waker};
pub use entries::{Entries, entries};
pub use linux::{BesideLinux, ENDS, End, LINUX};
pub use start::{Left, instructions_to_linux};
pub use steady::{Beat, Late, Wake, wakes};

/// A timer that is never due in a test, in units of 100 ns.
pub const NEVER: u64 = 6_000_000_000;
