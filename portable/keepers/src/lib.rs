//! Keepers of an OS's PCI devices: what quiets them when the power fails, writes down what
//! they hold, and puts it back at the next power-on, while their drivers know of nothing.
//!
//! [`stop()`] runs while no hart runs the OS, and may take no longer than the power lasts.
//! What it writes are sections of a record: the configuration of every function, and what
//! the keeper of each device in use needs. [`check()`], [`put_back()`] and [`announce()`]
//! are the way back; the last has devices interrupt again, and so comes behind all that
//! interrupts go to. [`Survey`] tells beforehand what would refuse a stop.
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
pub use stop::{MAX_DEVICES, reach_memory, stop};
pub use survey::Survey;
