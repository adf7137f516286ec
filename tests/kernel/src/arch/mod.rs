//! All assembly, and all access to CSRs.

mod entry;
pub(crate) mod float;
pub(crate) mod guard;
pub(crate) mod guest;
pub(crate) mod kernel_space;
pub(crate) mod os_csr;
pub(crate) mod registers;
pub(crate) mod sandbox;
pub(crate) mod sleep;
pub(crate) mod translated;
pub(crate) mod vector;

pub(crate) use entry::{STACK_SIZE, image, worker_stack_top};
pub(crate) use poorwill_bare::hart::time;

use crate::write_csr;

/// `sstatus.SIE`: interrupts are taken in S-mode.
pub(crate) const SSTATUS_SIE: usize = 1 << 1;
/// `sstatus.FS`: the floating point unit's state; 0 is off.
pub(crate) const SSTATUS_FS: usize = 3 << 13;
/// `sstatus.VS`: the vector unit's state; 0 is off.
pub(crate) const SSTATUS_VS: usize = 3 << 9;
/// `sstatus.SUM`: S-mode may access user pages.
pub(crate) const SSTATUS_SUM: usize = 1 << 18;
/// `sstatus.MXR`: executable pages may be read.
pub(crate) const SSTATUS_MXR: usize = 1 << 19;
/// `sie`/`sip`: software interrupts (IPIs).
pub(crate) const SOFTWARE: usize = 1 << 1;
/// `sie`/`sip`: timer interrupts.
pub(crate) const TIMER: usize = 1 << 5;

/// `scause` of an interrupt with the number whose bit is `mask`.
pub(crate) const fn interrupt_cause(mask: usize) -> usize {
    1 << 63 | mask.trailing_zeros() as usize
}

/// Lets no interrupt through, and points traps to the fatal handler.
///
/// For use after `sbi-testing`, which leaves its own handler behind.
pub(crate) fn quiet() {
    write_csr!("sie", 0);
    write_csr!("stvec", entry::fatal_vector_address());
}

/// Whether machine mode emulates `instret`, which then counts machine mode's instructions, too.
/// QEMU must count instructions.
pub(crate) fn has_emulated_counters() -> bool {
    let (first, second): (usize, usize);
    // SAFETY: reads of counters change no state.
    unsafe {
        core::arch::asm!("csrr {}, instret", "csrr {}, instret", out(reg) first, out(reg) second);
    };
    second.wrapping_sub(first) > 8
}

/// Executes two instructions a round.
pub(crate) fn spin(rounds: usize) {
    // SAFETY: the loop changes a register of its own.
    unsafe {
        core::arch::asm!("1:", "addi {0}, {0}, -1", "bnez {0}, 1b", inout(reg) rounds => _);
    }
}

/// Makes instructions written as data visible to instruction fetches.
pub(crate) fn fence_i() {
    // SAFETY: a fence changes no state.
    unsafe { core::arch::asm!("fence.i") };
}
