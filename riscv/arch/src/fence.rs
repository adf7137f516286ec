//! Fences (RISC-V unprivileged specification, FENCE; privileged specification,
//! SFENCE.VMA and the H extension).

use core::arch::asm;

/// Drops cached instructions and translations of this hart.
pub fn all() {
    instructions();
    // SAFETY: fences only drop cached state.
    unsafe { asm!("sfence.vma", options(nostack)) }
}

/// Makes stores visible to this hart's instruction fetches.
pub fn instructions() {
    // SAFETY: a fence only drops cached state.
    unsafe {
        asm!(
            ".option push",
            ".option arch, +zifencei",
            "fence.i",
            ".option pop",
            options(nostack)
        )
    }
}

/// SFENCE.VMA for one page, in one address space or in all.
pub fn page(address: u64, space: Option<u64>) {
    // SAFETY: a fence only drops cached state.
    unsafe {
        match space {
            Some(space) => {
                asm!("sfence.vma {0}, {1}", in(reg) address, in(reg) space, options(nostack))
            }
            None => asm!("sfence.vma {0}, zero", in(reg) address, options(nostack)),
        }
    }
}

/// SFENCE.VMA for all pages of one address space.
pub fn space(space: u64) {
    // SAFETY: a fence only drops cached state.
    unsafe { asm!("sfence.vma zero, {0}", in(reg) space, options(nostack)) }
}

/// HFENCE.GVMA for everything; only on harts with the H extension.
pub fn guests() {
    // SAFETY: a fence only drops cached state. hfence.gvma x0, x0.
    unsafe { asm!(".insn r 0x73, 0, 0x31, x0, x0, x0", options(nostack)) }
}

/// HFENCE.VVMA for everything; only on harts with the H extension.
pub fn guest_translations() {
    // SAFETY: a fence only drops cached state. hfence.vvma x0, x0.
    unsafe { asm!(".insn r 0x73, 0, 0x11, x0, x0, x0", options(nostack)) }
}

/// Orders writes to memory before later device writes, so that a device finds the data when it is
/// notified.
pub fn before_device_write() {
    // SAFETY: a fence only orders accesses.
    unsafe { asm!("fence w, o", options(nostack, preserves_flags)) }
}

/// Orders a device read before later reads of memory.
pub fn after_device_read() {
    // SAFETY: a fence only orders accesses.
    unsafe { asm!("fence i, r", options(nostack, preserves_flags)) }
}

/// Orders a device write before later accesses to memory.
pub fn after_device_write() {
    // SAFETY: a fence only orders accesses.
    unsafe { asm!("fence o, rw", options(nostack, preserves_flags)) }
}

/// Orders all accesses, also to devices, before all later ones. Cache operations are complete then.
pub fn everything() {
    // SAFETY: a fence only orders accesses.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) }
}
