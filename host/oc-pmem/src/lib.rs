//! LightPC's memory controller (PSM) as a cycle model.
//!
//! A [`Source`] gives each hart's memory requests, with the instructions between them. [`run`] lets
//! the harts execute them on a [`Machine`] with [`Parameters`], and returns the [`Outcome`].
//!
//! The model is a closed loop: a slow memory holds its harts back. Time is an integer number of
//! picoseconds, so each result is exact and the same on each host.
//!
//! # Limits
//!
//! - Each instruction takes a cycle. Floating point and branches cost nothing more.
//! - The link between controller and DIMM is a latency, and never busy.
//! - A row buffer's program operation takes the same time for one line and for all of its page.
//! - DRAM has no refresh, and its rows are always closed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod core_model;
mod displacement;
mod machine;
mod memory;
mod parameters;
mod random;
mod request;
mod run;
mod saving;
mod time;
mod wear;

pub use displacement::Displacement;
pub use machine::Machine;
pub use memory::in_order::{InOrder, Unit};
pub use memory::light::LightPc;
pub use memory::place::{Map, Place};
pub use memory::pmem_dimm::PmemDimms;
pub use memory::randomise::Randomiser;
pub use memory::start_gap::{Move, StartGap};
pub use memory::watch::{Copy, Served, Watch};
pub use memory::{Counts, Memory};
pub use parameters::{Name, Parameter, ParameterError, Parameters, TABLE};
pub use random::latency;
pub use request::{Kind, Request, Source};
pub use run::{Fault, Outcome, run};
pub use saving::{Checkpoints, Direction, Transfer};
pub use time::Time;
pub use wear::{Attack, Levelling, Lifetime, Region, lifetime};
