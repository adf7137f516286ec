//! The floating point registers, which this soft-float binary itself never uses.

use core::arch::naked_asm;

/// f0 to f31, then fcsr.
pub(crate) type Registers = [u64; 33];

/// Sets every floating point register. `sstatus.FS` must not be off.
///
/// # Safety
/// The hart must have the D extension.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn load(from: &Registers) {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "fld f\\n, 8*\\n(a0)",
        ".endr",
        "ld t0, 8*32(a0)",
        "fscsr t0",
        ".option pop",
        "ret",
    )
}

/// Reads every floating point register. `sstatus.FS` must not be off.
///
/// # Safety
/// The hart must have the D extension.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn store(to: &mut Registers) {
    naked_asm!(
        ".option push",
        ".option arch, +d",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "fsd f\\n, 8*\\n(a0)",
        ".endr",
        "frcsr t0",
        "sd t0, 8*32(a0)",
        ".option pop",
        "ret",
    )
}
