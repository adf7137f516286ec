//! The memory of a machine, and the pages that a sleep saves.
//!
//! [`MemoryMap`] has the ranges of OS memory, and [`OsMemory`] gives access to them in
//! pages ([`OsPage`], [`Page`]). [`linux`] finds the free pages of a Linux. [`PageMap`]
//! is the set of pages that a sleep saves. The hashes that several crates use are here,
//! too. This crate uses no CSR, no MMIO and no medium, so all of it is tested on the
//! host.
#![no_std]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

pub mod checksum;
mod entry_point;
#[cfg(feature = "fake")]
pub mod fake;
mod free;
mod identity;
pub mod linux;
mod memory_map;
mod os_memory;
mod page;
mod page_hash;
mod page_map;
mod strided_fill;
mod walk;

/// Converts a count or an index to the machine's word. Addresses always have 64 bits
/// here, so this is lossless.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits, checked here"
)]
pub const fn to_usize(value: u64) -> usize {
    const { assert!(usize::BITS == 64, "Poorwill runs on 64-bit machines") }
    value as usize
}

pub use entry_point::EntryPoint;
pub use free::FreeContents;
pub use identity::{Difference, MachineIdentity};
pub use memory_map::{MAX_RANGES, MemoryMap, MemoryMapError, PhysRange};
pub use os_memory::{OsMemory, OsPage, PageWords};
pub use page::{PAGE_BYTES, PAGE_WORDS, Page};
pub use page_hash::{PageHasher, page_hash, page_words_hash};
pub use page_map::{Indices, PageMap, PageMapError, Run};
pub use strided_fill::{ROW_WORDS, StridedFill};
pub use walk::{PageCursor, PageWalk};
