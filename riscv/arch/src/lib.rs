//! Access to hardware by a hart's instructions in machine mode: CSRs, the hart's units, device
//! registers, caches and fences.
//!
//! This crate decides nothing. The crates that decide (`hart`, `domain`, `drivers`, `medium`)
//! define traits, which this crate implements for hardware and their tests implement by models. The
//! firmware joins both sides, and holds the code by which harts enter and leave machine mode.
#![no_std]
#![deny(clippy::let_underscore_must_use)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses and registers have 64 bits"
)]

pub mod cache;
pub mod claimed;
pub mod counters;
pub mod csr;
mod entropy;
pub mod environment;
pub mod fence;
pub mod float;
pub mod fw_cfg;
pub mod guarded;
pub mod imsic;
mod interruptible;
mod iommu;
pub mod ipi;
pub mod irqs_off;
mod last_trap;
mod mmio;
mod os_banks;
mod os_context;
pub mod os_csr;
pub mod pci;
pub mod pmp;
mod probe;
mod time;
mod timer;
mod trigger;
mod unit;
mod unprivileged;
pub mod vector;

use core::arch::asm;

pub use entropy::HartSources;
pub use interruptible::{interruptible, uninterrupted};
pub use iommu::IommuMemory;
pub use last_trap::LastTrap;
pub use mmio::Mmio;
pub use os_context::OsContext;
pub use time::{Time, hart_timer};
pub use timer::{HartTimer, HeldTimer, TimerRegisters};
pub use trigger::Triggers;
pub use unprivileged::{LoadFault, load_as_supervisor, load_code};

const _: () = assert!(usize::BITS == u64::BITS, "for RV64");

/// Waits until an interrupt that is enabled in `mie` is pending.
pub fn wait_for_interrupt() {
    // SAFETY: wfi has no effect on memory or registers.
    unsafe { asm!("wfi", options(nomem, nostack)) }
}

/// ID of the calling hart.
pub fn hart_id() -> u64 {
    csr::read::<{ csr::MHARTID }>()
}

/// Sets `tp`, which holds the pointer to this hart's own data in machine mode.
pub fn set_thread_pointer(pointer: usize) {
    // SAFETY: compiled code of machine mode does not use tp; the trap frame holds the OS's tp.
    unsafe { asm!("mv tp, {0}", in(reg) pointer, options(nomem, nostack)) }
}

/// Reads `tp`.
pub fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe { asm!("mv {0}, tp", out(reg) pointer, options(nomem, nostack, preserves_flags)) }
    pointer
}
