//! Cache blocks (RISC-V CMO extensions, Zicbom).

use core::arch::asm;

use poorwill_memory::PhysRange;

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
