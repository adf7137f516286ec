//! The decisions and drivers of the critical guest.
//!
//! The guest has a hart, a CAN controller and a serial line. Each millisecond it sends a frame with
//! a sequence number and the age of the newest data. Each ten milliseconds it runs a control
//! pipeline, which makes the data. A byte `s` on the serial line asks it to sleep.
//!
//! This follows Jumpstart (Golchin and West, IV-B3). A wake re-synchronises the schedule, and
//! pipelines enter their initialisation stage again. So no frame carries data from before a sleep.
//!
//! The program beside this library is the loop: [`Schedule`], [`Pipeline`], [`SleepRequest`] decide,
//! [`Can`] and [`Serial`] drive. The device tree's contents are in `critical.dts`.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod board;
mod can;
mod heartbeat;
mod pipeline;
mod request;
mod schedule;
mod serial;

pub use board::{Board, BoardError, Function};
pub use can::Can;
pub use heartbeat::{CAN_ID, Heartbeat};
pub use pipeline::{Pipeline, STABLE_SAMPLES};
pub use request::SleepRequest;
pub use schedule::{CONTROL_EVERY, Due, Schedule};
pub use serial::Serial;
