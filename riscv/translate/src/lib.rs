//! Virtual harts, on which a weak core runs the OS's supervisor mode.
//!
//! A [`VirtualHart`] has the state of a lent hart that S-mode sees. [`VirtualHart::run`] interprets
//! its instructions over a [`Host`], which reaches memory, devices and time. It stops at SBI calls,
//! at waits, at the first instruction of a program, and before each instruction that it does not
//! know: the lent hart itself continues there. So an instruction takes effect as a whole or not at
//! all, and a virtual hart never raises an illegal instruction.
//!
//! One core runs the harts of one OS in turns. No two of them run at once, so an AMO is a load and
//! a store. A stop ends the turn, and drops the reservation of `lr`.
#![cfg_attr(not(any(test, feature = "fake")), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "fields are cut out intentionally, and registers have 64 bits"
)]

mod blocks;
mod csr;
mod decoded;
mod difference;
#[cfg(feature = "fake")]
pub mod fake;
mod features;
mod half;
mod hart;
mod host;
mod interpreter;
mod known;
mod memory;
mod shortcuts;
mod state;
mod tlb;
mod translation;
mod trap;
mod turns;

#[cfg(feature = "fake")]
pub use blocks::fake_core;
pub use blocks::{Blocks, Core, Environment, Index, Left, Options, REGION_BYTES, Region, Watch};
pub use difference::{Difference, What};
pub use features::Features;
pub use half::{End, Half, Kind, Report, Spins};
pub use hart::{Activity, Counts, Mode, Stop, VirtualHart};
pub use host::Host;
pub use known::KnownMemory;
pub use state::Csrs;
pub use turns::{first_deadline, next_turn};
