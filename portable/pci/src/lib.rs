//! PCI: searches devices that can hold a sleep area, and makes one of them usable.
//!
//! The firmware finds a PCI bus in two states: after power-on, without addresses; or as a
//! suspended OS left it, with the OS's addresses, functions in D3hot, decoding and bus
//! mastering off. It must leave the bus unchanged, so it does not enumerate or configure
//! it permanently. [`find`] searches, [`acquire`] makes one device and the bridges above
//! it usable, and [`DeviceHandle::release`] undoes all steps.
//!
//! The registers are those of the PCI Express Base Specification 5.0, chapter 7, and of
//! the PCI-to-PCI Bridge Architecture Specification 1.2.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod bar;
mod bus;
mod capability;
mod config;
mod device_handle;
mod error;
mod find;
mod host;
mod in_use;
pub mod intx;
mod journal;
mod kind;
mod list;
mod location;
mod message;
#[cfg(any(test, feature = "fake"))]
pub mod model;
pub mod placement;
mod power;
mod register;
mod saved;
mod silence;
pub mod virtio;

pub use config::{ConfigSpace, Function, MAX_FUNCTIONS};
pub use device_handle::{DeviceHandle, acquire, placed};
pub use error::PciError;
pub use find::{Search, find};
pub use host::{HostBridge, MAX_WINDOWS, Window, WindowKind};
pub use in_use::{InUse, in_use};
pub use kind::Kind;
pub use list::{
    Listed, bar_address, disable_intx, function_at, has_virtual_functions, holds_state, kind_of,
    list, refuse_virtual_functions, switch_off, take_access,
};
pub use location::{Location, MAX_DEPTH, MAX_DEVICES, MAX_IOMMUS, Step};
pub use message::{Message, MessageTable, Messages, message_table, messages};
pub use saved::{SavedConfig, SavedRegister, is_same, put_back, put_back_interrupts};
pub use silence::{Silenced, silence};

#[cfg(test)]
mod tests;
