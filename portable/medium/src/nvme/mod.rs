//! The NVMe driver: one controller, polled, with one pair of I/O queues.
//!
//! Written to the NVM Express Base Specification 2.0 (and 1.4, where devices
//! differ). [`Controller::start`] takes a controller over in whatever state it
//! is; [`Controller::medium`] makes a [`Medium`](crate::Medium) of one of its
//! namespaces; [`Controller::stop`] gives the controller back.
//!
//! # Memory ordering
//!
//! Queue memory is read and written by volatile accesses. Before a doorbell is
//! written and after a completion is seen, `fence(SeqCst)` orders them against
//! all other memory; on RISC-V that is `fence rw,rw`, so the firmware's
//! [`Registers`] must add `fence w,o` before and `fence i,r` after its MMIO
//! accesses (as Linux's `writel` and `readl` do). The platform must keep DMA
//! coherent with the caches, as the device tree's `dma-coherent` states.

mod command;
mod controller;
mod device;
mod engine;
mod error;
mod identify;
mod medium;
mod memory;
mod queue;
mod region;
pub mod register;
mod registers;
mod shared;
mod shared_namespace;
mod slots;

pub use controller::{ADMIN_TIMEOUT_MS, Controller, MAX_NAMESPACES, Stop};
pub use error::NvmeError;
pub use identify::{Namespace, ShutdownFacts};
pub use medium::{FLUSH_TIMEOUT_MS, NvmeMedium, TRANSFER_TIMEOUT_MS};
pub use memory::{DEPTH, QueueMemory, physical_address};
pub use region::{MemoryRegion, region_bar};
pub use registers::Registers;
pub use shared_namespace::{Identifiers, SharedNamespace};

#[cfg(test)]
mod tests;
