//! Cache blocks (RISC-V CMO extensions, Zicbom).

use core::arch::asm;

use poorwill_memory::PhysRange;

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
