//! Cache maintenance: by block (RISC-V CMO, Zicbom), by whole data cache (T-Head's XTheadCmo and
//! XTheadSync), and by displacement.

use core::arch::asm;

use poorwill_memory::PhysRange;

use crate::csr;

/// Bytes of the narrowest cache line in use: reads at this distance touch each line.
const MIN_LINE_BYTES: usize = 32;

/// Writes the blocks that hold these bytes back to memory, where every device sees them
/// (CBO.CLEAN). A fence waits for completion. Only on harts with Zicbom; `block_bytes` is a power
/// of two.
pub fn write_back(bytes: PhysRange, block_bytes: u64) {
    let first = bytes.start & !(block_bytes - 1);
    for block in (first..bytes.end).step_by(block_bytes as usize) {
        // SAFETY: cleaning changes no value. No `nomem`: earlier stores must be written back, too.
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

/// THEADISAEE: enables T-Head's instructions (C906 User Manual, MXSTATUS). SXSTATUS has the same
/// bits.
const THEAD_INSTRUCTIONS: u64 = 1 << 22;

/// Enables [`write_back_whole`] on the calling hart and returns whether it is enabled. Only on
/// harts that claim XTheadCmo.
pub fn allow_whole() -> bool {
    let can = || csr::try_read::<{ csr::TH_SXSTATUS }>();
    let can = || can().is_some_and(|status| status & THEAD_INSTRUCTIONS != 0);
    if can() {
        return true;
    }
    if let Some(status) = csr::try_read::<{ csr::TH_MXSTATUS }>() {
        // SAFETY: this enables instructions, and no code relies on a trap by them. The check below
        // reads the result.
        _ = unsafe { csr::try_write::<{ csr::TH_MXSTATUS }>(status | THEAD_INSTRUCTIONS) };
    }
    can()
}

/// Writes the calling hart's whole data cache back (TH.DCACHE.CALL) and waits for completion
/// (TH.SYNC.S). Only after [`allow_whole`] has returned true.
pub fn write_back_whole() {
    // SAFETY: the instructions change no value. No `nomem`: earlier stores must be written back,
    // too.
    unsafe {
        asm!(
            ".4byte 0x0010000b",
            ".4byte 0x0190000b",
            options(nostack, preserves_flags)
        )
    }
}

/// Reads a word of every line of these bytes. This displaces earlier contents of the calling hart's
/// cache, so the hart writes them back.
///
/// # Safety
///
/// The range is memory.
pub unsafe fn read_through(bytes: PhysRange) {
    for line in (bytes.start..bytes.end).step_by(MIN_LINE_BYTES) {
        // SAFETY: the caller guarantees memory: loads only affect caches.
        unsafe {
            asm!("ld {0}, 0({1})", out(reg) _, in(reg) line, options(nostack, readonly, preserves_flags));
        }
    }
}
