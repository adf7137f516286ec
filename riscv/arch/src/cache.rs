//! Caches: blocks of them (RISC-V CMO extensions, Zicbom), all of a hart's (T-Head's XTheadCmo
//! and XTheadSync), and what reading does to them.

use core::arch::asm;

use poorwill_memory::PhysRange;

use crate::csr;

/// Bytes of a line that no cache in use is narrower than.
const NARROWEST: usize = 32;

/// Writes the blocks that hold these bytes back to memory, where every device
/// finds them (CBO.CLEAN); a fence tells when that is done. Only on harts with
/// Zicbom; `block_bytes` is a power of two.
pub fn write_back(bytes: PhysRange, block_bytes: u64) {
    let first = bytes.start & !(block_bytes - 1);
    for block in (first..bytes.end).step_by(block_bytes as usize) {
        // SAFETY: cleaning changes no value. No `nomem`: stores before it are to
        // be what is written back.
        unsafe {
            asm!(
                ".option push",
                ".option arch, +zicbom",
                "cbo.clean ({0})",
                ".option pop",
                in(reg) block,
                options(nostack, preserves_flags)
            )
        }
    }
}

/// THEADISAEE: T-Head's instructions are not illegal (C906 User Manual, MXSTATUS; machine
/// mode's bits are seen in SXSTATUS).
const THEAD_INSTRUCTIONS: u64 = 1 << 22;

/// Lets the calling hart write all of its data cache back; whether it can. Only on harts that
/// say that they have XTheadCmo.
pub fn allow_whole() -> bool {
    let can = || csr::try_read::<{ csr::TH_SXSTATUS }>();
    let can = || can().is_some_and(|status| status & THEAD_INSTRUCTIONS != 0);
    if can() {
        return true;
    }
    if let Some(status) = csr::try_read::<{ csr::TH_MXSTATUS }>() {
        // SAFETY: it lets instructions through, which nothing relies on to trap. What becomes
        // of it is looked at.
        _ = unsafe { csr::try_write::<{ csr::TH_MXSTATUS }>(status | THEAD_INSTRUCTIONS) };
    }
    can()
}

/// Writes all of the calling hart's data cache back to what is behind it (TH.DCACHE.CALL), and
/// waits for that (TH.SYNC.S). Only where [`allow_whole`] has said so.
pub fn write_back_whole() {
    // SAFETY: it changes no value. No `nomem`: stores before it are to be what is written
    // back.
    unsafe {
        asm!(
            ".4byte 0x0010000b",
            ".4byte 0x0190000b",
            options(nostack, preserves_flags)
        )
    }
}

/// Reads a word of every line of these bytes, so that the calling hart's cache has to write
/// back what it held before.
///
/// # Safety
///
/// It is memory.
pub unsafe fn read_through(bytes: PhysRange) {
    for line in (bytes.start..bytes.end).step_by(NARROWEST) {
        // SAFETY: memory, says the caller: loads have no effect but on caches.
        unsafe {
            asm!("ld {0}, 0({1})", out(reg) _, in(reg) line, options(nostack, readonly, preserves_flags));
        }
    }
}
