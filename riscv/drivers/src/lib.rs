//! Drivers of devices that machine mode uses itself, or restores for the OS after a sleep.
//!
//! Each driver accesses its device through [`Registers`]. The firmware implements it by volatile
//! accesses, the tests by a model after the device's specification. A [`Keeper`] captures and
//! restores the OS's state of a device.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

pub mod aplic;
pub mod clint;
mod controllers;
mod ecam;
mod flash;
mod flush;
pub mod fw_cfg;
mod goldfish;
mod gpio;
pub mod imsic;
pub mod iommu;
mod keeper;
pub mod mediated;
mod mediated_device;
mod plic;
mod plic_enables;
mod power_fail;
mod registers;
mod switch;
mod syscon;
pub mod uart;
mod virtio_mmio;

pub use clint::Timer as HartDeadline;
pub use controllers::{ControllerState, Controllers, OwnControllers, SectionKey, ShutDomains};
pub use ecam::Ecam;
pub use flash::FlashBank;
pub use flush::FlushRegisters;
pub use goldfish::{GoldfishRtc, RtcState, TimeAlone};
pub use iommu::Iommu;
pub use keeper::{Keeper, MAX_WORDS, State, WrongLength};
pub use mediated_device::MediatedDevice;
pub use plic::{Plic, SharedContext};
pub use plic_enables::{FixedRegister, PlicEnables};
pub use power_fail::PowerFailLine;
pub use registers::Registers;
pub use switch::Switch;
pub use syscon::Syscon;
pub use virtio_mmio::{VirtioMmio, is_driven};
