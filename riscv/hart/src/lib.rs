//! What a RISC-V hart holds for the OS, as data: so far the page tables that its
//! kernel runs on, and where a Linux has its image in them.
//!
//! No CSR is read here: the firmware gives their values.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "fake")]
pub mod fake;
mod page_tables;

pub use page_tables::{Mode, PageTables};
