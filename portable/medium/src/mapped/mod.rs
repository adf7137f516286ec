//! The driver for PMem that is mapped: blocks in a range of memory that the CPU
//! loads and stores.
//!
//! There is no queue and no DMA: [`Medium::start`](crate::Medium::start) has
//! moved the pages when it returns. What makes stores durable is the machine's
//! affair and comes through [`Persistence`]: lines are written back as soon as
//! they have been stored, while they are still in the caches, so that a flush
//! has nothing left to do but to wait.
//!
//! Blocks are of [`BLOCK_BYTES`], as on most disks, so that a partition table
//! on such memory is that of a disk with the same bytes. A store is durable in
//! units of a word at least, so a block may be torn by a power cut, as on any
//! disk that promises nothing.

mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod medium;
mod memory;
mod persistence;

pub use error::MappedError;
pub use medium::{BLOCK_BYTES, DEPTH, MAX_PAGES, MappedMedium};
pub use memory::MappedMemory;
pub use persistence::Persistence;

#[cfg(test)]
mod tests;
