//! Keepers stop an OS's PCI devices when the power fails, save their state, and restore
//! it after the power-on. The drivers do not notice.
//!
//! [`stop()`] runs while no hart runs the OS, and must end while the power lasts. It
//! writes sections of a record: each function's configuration, and the state of each
//! device in use. [`check()`], [`put_back()`] and [`announce()`] restore them.
//! [`announce()`] enables the interrupts again, so it comes after the restore of all
//! interrupt controllers and harts. [`Survey`] predicts the reasons for which a stop
//! would be refused.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

#[cfg(test)]
extern crate std;

mod ahci;
mod device;
mod e1000e;
mod error;
mod go;
mod interrupts;
mod kind;
mod machine;
mod nvme;
mod pci;
mod stop;
mod survey;
#[cfg(test)]
mod tests;

pub use error::KeeperError;
pub use go::{announce, check, give_up, put_back};
pub use kind::Drivers;
pub use machine::{Machine, Window};
pub use nvme::shuts_down_within;
pub use stop::{reach_memory, stop};
pub use survey::Survey;

/// The most devices in use that can be stopped.
pub const MAX_DEVICES: usize = 16;
