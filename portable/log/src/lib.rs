//! The firmware's last log lines. A reset keeps them, an image carries them, and the OS
//! gets them as text of fixed length through its device tree. Also the lines of domains, which wait
//! for the console of another one.
//!
//! This crate touches only memory that it is given: the firmware places the [`Log`].
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod budget;
mod lines;
mod log;
mod told;

pub use budget::LineBudget;
pub use lines::{Lines, MAX_PRINTED, PrintedLine, WAITING_BYTES};
pub use log::{LOG_BYTES, Log, LogLine, MAX_LINE, PanicLine, TEXT_BYTES};
pub use told::{LogText, ToldLog};
