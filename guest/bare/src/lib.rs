//! The common parts of bare guests, which run in S-mode without translation: registers, interrupt
//! controllers, console, sleep.
//!
//! Addresses are safe arguments. A guest owns all that the firmware leaves to it, and another
//! address traps.
#![no_std]
#![allow(
    clippy::cast_possible_truncation,
    reason = "numbers of harts, sources and identities are small"
)]

pub mod aplic;
pub mod console;
pub mod hart;
pub mod imsic;
pub mod mmio;
mod suspend;

pub use suspend::suspend;
