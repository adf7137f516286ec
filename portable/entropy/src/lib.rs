//! Random bytes for keys, from a machine's sources of randomness.
//!
//! A [`Pool`] gathers the bytes of the [`Sources`]; each draw is for one [`Purpose`].
//! [`seed`] reads RISC-V's entropy source. This crate does not touch hardware: the
//! firmware supplies the bytes.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod gather;
mod pool;
pub mod seed;

pub use gather::{HARDWARE_BYTES, Sources};
pub use pool::{Pool, Purpose, Quality, Source};
