//! LightPC's memory controller (PSM) as a cycle model.
//!
//! A [`Source`] gives each hart's memory requests, with the instructions between them. [`run`] lets
//! the harts execute them on a [`Machine`] with [`Parameters`], and returns the [`Outcome`].
//!
//! The model is a closed loop: a slow memory holds its harts back. [`serve`] is the open one, in which
//! requests come at their own times. Time is an integer number of
//! picoseconds, so each result is exact and the same on each host.
//!
//! # Limits
//!
//! - Each instruction takes a cycle. Floating point and branches cost nothing more.
//! - The link between controller and DIMM is a latency. Machines whose parts work in order can have a
//!   busy one, too.
//! - A row buffer's program operation takes the same time for one line and for all of its page.
//! - DRAM's rows are always closed. At the base point it has no refresh and no precharge.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arrivals;
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

pub use arrivals::{Arrival, serve};
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
