//! Entry of harts into machine mode, exit from it, and their stacks.

pub(crate) mod offer;
pub(crate) mod stack;
mod supervisor;

use core::arch::global_asm;

use poorwill_arch::ipi::IPI_IDENTITY;
use poorwill_arch::{csr, wait_for_interrupt};
use poorwill_hart::interrupt;
use stack::{STACK_BYTES, STACK_HEAD};

pub(crate) use supervisor::{call_from, enter, frame_at, return_to};

global_asm!(
    include_str!("entry.S"),
    STACK_BYTES = const STACK_BYTES,
    STACK_HEAD = const STACK_HEAD,
    PLACED = sym stack::PLACED,
    OFFER = sym offer::OFFER,
    TAKEN = const offer::TAKEN,
    NO_HART = const offer::NO_HART,
    TABLE_BYTES = const stack::TABLE_BYTES,
    DEEP_STACK = sym stack::DEEP_STACK,
    DEEP_STACK_BYTES = const stack::DEEP_STACK_BYTES,
    PAINT = const stack::PAINT,
    DOUBLE_TRAP = const csr::status::MDT,
    IPI_IDENTITY = const IPI_IDENTITY,
    MACHINE_INTERRUPTS = const interrupt::MSI | interrupt::MEI,
);

unsafe extern "C" {
    /// Entry point of traps from the OS (entry.S).
    pub(crate) safe fn trap_entry();
    fn restart_on_stack(stack_top: usize) -> !;
}

/// The OS's registers at a trap, in entry.S's layout.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TrapFrame {
    /// x0 to x31; the first is unused.
    pub(crate) x: [usize; 32],
    pub(crate) mepc: usize,
    pub(crate) mstatus: usize,
}

impl TrapFrame {
    /// Returns whether the trap came from the OS itself: not from a program or a guest.
    pub(crate) fn is_of_supervisor(&self) -> bool {
        let mode = self.mstatus as u64 & (csr::status::MPP | csr::status::MPV);
        mode == csr::status::MPP_SUPERVISOR
    }
}

/// Halts the calling hart for ever.
pub(crate) fn halt() -> ! {
    // SAFETY: nothing must wake this hart.
    unsafe { csr::write::<{ csr::MIE }>(0) };
    loop {
        wait_for_interrupt();
    }
}

/// Drops the call chain of this hart and waits for its start.
///
/// # Safety
///
/// `stack_top` is this hart's own, and its stack's contents are not needed any more.
pub(crate) unsafe fn restart(stack_top: usize) -> ! {
    // SAFETY: passed on to the caller.
    unsafe { restart_on_stack(stack_top) }
}
