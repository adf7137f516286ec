//! Driver for mapped persistent memory (PMem): blocks in a range of memory that the CPU
//! loads and stores.
//!
//! There are no queues and no DMA: [`Medium::start`](crate::Medium::start) moves the
//! pages before it returns. The machine makes stores durable through [`Persistence`].
//! Lines are written back directly after they are stored, while they are still in the
//! caches, so that a flush only waits.
//!
//! Blocks have [`BLOCK_BYTES`], as on most disks, so the memory's partition table is like
//! that of a disk with the same bytes. A store is durable in units of at least a word, so
//! a power cut may tear a block, as on most disks.

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
