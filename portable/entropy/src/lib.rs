//! Random bytes for keys, from whatever randomness a machine has.
//!
//! What the [`Sources`] give is gathered in a [`Pool`], and drawn from it for one
//! [`Purpose`] at a time. [`seed`] is the way to read RISC-V's entropy source.
//! Nothing here touches hardware: the firmware brings the bytes.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod gather;
mod pool;
pub mod seed;

pub use gather::{HARDWARE_BYTES, Sources};
pub use pool::{Pool, Purpose, Quality, Source};
