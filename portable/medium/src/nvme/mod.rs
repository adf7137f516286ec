//! The NVMe driver: one controller, polled, with one pair of I/O queues.
//!
//! It follows the NVM Express Base Specification 2.0 (and 1.4, where devices differ).
//! [`Controller::start`] takes over a controller in any state. [`Controller::medium`]
//! makes one of its namespaces available as a [`Medium`](crate::Medium).
//! [`Controller::stop`] returns the controller.
//!
//! # Memory ordering
//!
//! Queue memory is accessed with volatile reads and writes. Before a doorbell write, and
//! after a completion is seen, `fence(SeqCst)` orders them with all other memory
//! accesses. On RISC-V that is `fence rw,rw`, so the firmware's [`Registers`] must add
//! `fence w,o` before and `fence i,r` after its MMIO accesses (like Linux's `writel` and
//! `readl`). The platform must keep DMA coherent with the caches, as stated by the device
//! tree's `dma-coherent`.

mod command;
mod controller;
mod device;
mod engine;
mod error;
#[cfg(any(test, feature = "fake"))]
#[allow(
    clippy::cast_possible_truncation,
    reason = "halves are meant, and indices are small"
)]
pub mod fake;
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
