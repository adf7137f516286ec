//! Floating point registers.

use core::arch::asm;

use poorwill_hart::FloatRegisters;

use crate::csr::{self, status};

/// The registers, on a hart whose `mstatus.FS` is not off.
pub fn save() -> FloatRegisters {
    let mut registers = [0; 33];
    registers[32] = csr::read::<{ csr::FCSR }>();
    // SAFETY: stores f0 to f31, which the caller has found to be there, into the
    // array.
    unsafe {
        asm!(
            ".option push", ".option arch, +d",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "fsd f\\n, 8*\\n({0})",
            ".endr",
            ".option pop",
            in(reg) registers.as_mut_ptr(),
            options(nostack),
        );
    }
    registers
}

/// Puts the registers back, and the unit's state as it is in `mstatus` now.
pub fn restore(registers: &FloatRegisters) {
    let before = csr::read::<{ csr::MSTATUS }>() & status::FS;
    // SAFETY: opens the unit, loads f0 to f31 from the array, and puts FS back.
    // The firmware is built without floating point, so none of them is in use.
    unsafe {
        csr::set::<{ csr::MSTATUS }>(status::FS);
        csr::write::<{ csr::FCSR }>(registers[32]);
        asm!(
            ".option push", ".option arch, +d",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
            "fld f\\n, 8*\\n({0})",
            ".endr",
            ".option pop",
            in(reg) registers.as_ptr(),
            options(nostack, readonly),
        );
        csr::clear::<{ csr::MSTATUS }>(status::FS);
        csr::set::<{ csr::MSTATUS }>(before);
    }
}
