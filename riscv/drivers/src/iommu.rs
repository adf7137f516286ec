//! RISC-V IOMMU (RISC-V IOMMU Architecture Specification, version 1.0 of June 2023).
//!
//! [`Iommu`] uses only its mode, for a machine with one OS. [`TranslatingIommu`] fences devices
//! from each other's memory, by a device directory.

mod capabilities;
mod commands;
mod context;
mod directory;
mod error;
mod faults;
mod map;
mod memory;
mod mode;
mod queue;
mod register;
mod table_bytes;
mod translating;

use core::fmt;

use poorwill_pci::Function;

pub use capabilities::Capabilities;
pub use context::Context;
pub use error::IommuError;
pub use faults::{Access, Drained, Fault, FaultCause};
pub use map::{DmaRange, IdentityMap};
pub use memory::{TableMemory, TablePages};
pub use mode::{Iommu, IommuMode};
pub use table_bytes::table_bytes;
pub use translating::TranslatingIommu;

/// The most reads of a register while the driver waits for the IOMMU. With fewer than ten
/// instructions for each, a wait stays within machine mode's bound with interrupts off.
const MAX_POLLS: u32 = 20_000;

/// A device ID: the number by which an IOMMU knows a device, 24 bits. For a PCI function it is the
/// routing ID of its requests. Behind a PCI bridge that is the bridge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId(pub u32);

impl From<Function> for DeviceId {
    fn from(function: Function) -> Self {
        DeviceId(u32::from(function.routing_id()))
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests;
