//! Random bytes for keys, from whatever randomness a machine has.
//!
//! What the sources give is gathered in a [`Pool`], and drawn from it for one
//! [`Purpose`] at a time. [`seed`] is the way to read RISC-V's entropy source.
//! Nothing here touches hardware: the firmware brings the bytes.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod pool;
pub mod seed;

pub use pool::{Pool, Purpose, Quality, Source};
