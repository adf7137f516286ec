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
mod queue;
mod register;
mod translating;

use core::fmt;

use poorwill_medium::pci::Function;

pub use capabilities::Capabilities;
pub use context::Context;
pub use error::IommuError;
pub use faults::{Access, Drained, Fault, FaultCause};
pub use map::{DmaRange, IdentityMap};
pub use memory::{TableMemory, TablePages};
pub use translating::TranslatingIommu;

use crate::Registers;
use register::{DDTP, ddtp as mode};

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

/// An IOMMU.
#[derive(Clone, Copy, Debug)]
pub struct Iommu<R> {
    registers: R,
}

impl<R: Registers<u64>> Iommu<R> {
    /// The IOMMU with these registers.
    pub fn new(registers: R) -> Self {
        Iommu { registers }
    }

    /// Sets an IOMMU that is off, as after a power-on, to bare. One that translates stays
    /// unchanged.
    pub fn start(&self) {
        if self.registers.read(DDTP) & mode::MODE == mode::OFF {
            self.registers.write(DDTP, mode::BARE);
        }
    }

    /// Returns whether devices' accesses are translated or blocked.
    pub fn is_on(&self) -> bool {
        self.registers.read(DDTP) & mode::MODE != mode::BARE
    }
}

#[cfg(test)]
mod tests;
