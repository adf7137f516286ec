//! The search on PCI for what can hold a sleep area, and the use of one device.
//!
//! Firmware meets a PCI bus in two states: untouched, right after power-on,
//! with no address given to anything; and as an OS left it, with addresses of
//! the OS's choice, functions asleep in D3hot, decoding and bus mastering off.
//! It is to leave the bus as it found it either way. So nothing is enumerated
//! or configured for good: [`find`] looks, [`acquire`] makes one device and
//! the bridges above it work, and [`DeviceHandle::release`] undoes every step of that.
//!
//! Registers are those of the PCI Express Base Specification 5.0, chapter 7,
//! and of the PCI-to-PCI Bridge Architecture Specification 1.2.

mod address;
mod bar;
mod bus;
mod capability;
mod config;
mod device_handle;
mod error;
mod find;
mod host;
mod journal;
mod kind;
mod location;
#[cfg(any(test, feature = "fake"))]
pub mod model;
mod power;
mod register;

pub use config::{ConfigSpace, Function};
pub use device_handle::{DeviceHandle, acquire};
pub use error::PciError;
pub use find::{Search, find};
pub use host::{HostBridge, MAX_WINDOWS, Window, WindowKind};
pub use kind::Kind;
pub use location::{Location, MAX_DEPTH, MAX_DEVICES, Step};

#[cfg(test)]
mod tests;
