//! Which pages of a machine matter.
//!
//! This crate knows the memory that belongs to the OS ([`OsMemory`]), one page
//! of it ([`OsPage`], [`Page`]), and the set of pages that a sleep saves
//! ([`PageMap`]). It knows no CSR, no MMIO and no medium, so that everything
//! here is decided, and tested, on the host.
#![no_std]
#![warn(missing_docs)]

mod os_memory;
mod page;
mod page_map;

pub use os_memory::{MAX_RANGES, OsMemory, OsMemoryError, OsPage, PageCursor, PhysRange};
pub use page::{PAGE_BYTES, PAGE_WORDS, Page};
pub use page_map::{Indices, PageMap, PageMapError, Run};
