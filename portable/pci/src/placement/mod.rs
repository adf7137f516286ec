//! Places the PCI functions of a machine whose domains may not configure the bus: bus numbers,
//! addresses, windows, decoding.
//!
//! A [`Plan`] names functions and addresses. Functions that it does not name are turned off. It is
//! [checked](Plan::check) without hardware, too.

mod apply;
mod error;
mod plan;

pub use error::{PlacementError, Register};
pub use plan::{AddressKind, PlacedFunction, PlacedRange, Plan};

/// The most bridges of a plan.
pub const MAX_BRIDGES: usize = 16;

#[cfg(test)]
mod tests;
