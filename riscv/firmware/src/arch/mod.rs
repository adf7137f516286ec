//! Everything that is assembly or a CSR.

pub(crate) mod cache;
pub(crate) mod csr;
pub(crate) mod fence;
pub(crate) mod float;
pub(crate) mod os_csr;
pub(crate) mod stack;
mod supervisor;
pub(crate) mod vector;

use core::arch::{asm, global_asm};

use stack::{STACK_BYTES, STACK_HEAD};
pub(crate) use supervisor::{enter, page_tables};

global_asm!(
    include_str!("entry.S"),
    STACK_BYTES = const STACK_BYTES,
    STACK_HEAD = const STACK_HEAD,
    PLACED = sym stack::PLACED,
    TABLE_BYTES = const stack::TABLE_BYTES,
    DEEP_STACK = sym stack::DEEP_STACK,
    DEEP_STACK_BYTES = const stack::DEEP_STACK_BYTES,
    PAINT = const stack::PAINT,
    IPI_IDENTITY = const IPI_IDENTITY,
    MACHINE_INTERRUPTS = const csr::interrupt::MSI | csr::interrupt::MEI,
);

/// The interrupt identity of machine-mode IPIs in an IMSIC file.
pub(crate) const IPI_IDENTITY: u32 = 1;

unsafe extern "C" {
    /// Where traps from the OS begin (entry.S).
    pub(crate) safe fn trap_entry();
    fn restart_on_stack(stack_top: usize) -> !;
}

/// The registers of the OS at a trap, as entry.S lays them out.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TrapFrame {
    /// x0 to x31; the first is unused.
    pub(crate) x: [usize; 32],
    /// Where the OS was.
    pub(crate) mepc: usize,
    /// Its `mstatus`.
    pub(crate) mstatus: usize,
}

/// Waits until an interrupt that is enabled in `mie` is pending.
pub(crate) fn wait_for_interrupt() {
    // SAFETY: wfi has no effect on memory or registers.
    unsafe { asm!("wfi", options(nomem, nostack)) }
}

/// The ID of the hart that runs this.
pub(crate) fn hart_id() -> u64 {
    csr::read::<{ csr::MHARTID }>()
}

/// Sets `tp`, which holds the pointer to this hart's `Hart` in machine mode.
pub(crate) fn set_thread_pointer(pointer: usize) {
    // SAFETY: nothing else in the firmware uses tp; the OS's is in its frame.
    unsafe { asm!("mv tp, {0}", in(reg) pointer, options(nomem, nostack)) }
}

/// Reads `tp`.
pub(crate) fn thread_pointer() -> usize {
    let pointer;
    // SAFETY: reads a register.
    unsafe { asm!("mv {0}, tp", out(reg) pointer, options(nomem, nostack, preserves_flags)) }
    pointer
}

/// Parks the calling hart for good.
pub(crate) fn park() -> ! {
    // SAFETY: nothing is to wake this hart.
    unsafe { csr::write::<{ csr::MIE }>(0) };
    loop {
        wait_for_interrupt();
    }
}

/// Drops the call chain of this hart and waits for it to be started.
///
/// # Safety
///
/// `stack_top` is this hart's own, and nothing on its stack is still needed.
pub(crate) unsafe fn restart(stack_top: usize) -> ! {
    // SAFETY: passed on to the caller.
    unsafe { restart_on_stack(stack_top) }
}
