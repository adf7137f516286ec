//! The SBI's suspend call, for guests whose entry code is start.S.

use core::arch::asm;

use sbi_spec::susp::{EID_SUSP, SUSPEND};

/// Calls SUSP for suspend to RAM; returns after the wake.
///
/// # Errors
///
/// The SBI's error, if the machine did not sleep.
pub fn suspend() -> Result<(), isize> {
    const TO_RAM: isize = 0;
    let mut error = TO_RAM;
    // SAFETY: at the wake vector a1 is the stack pointer of the call, and memory is as it was. All
    // registers that the compiler uses are clobbered, or on the stack (SBI 3.0, 13.1).
    unsafe {
        asm!(
            "addi sp, sp, -16",
            "sd   s0, 0(sp)",
            "sd   s1, 8(sp)",
            "lla  a1, 2f",
            "mv   a2, sp",
            "ecall",
            "j    3f",
            ".balign 4",
            "2:",
            "lla  t0, trap_vector",
            "csrw stvec, t0",
            "mv   sp, a1",
            "li   a0, 0",
            "3:",
            "ld   s0, 0(sp)",
            "ld   s1, 8(sp)",
            "addi sp, sp, 16",
            inlateout("a0") error,
            in("a6") SUSPEND,
            in("a7") EID_SUSP,
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _,
            out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            clobber_abi("C"),
        );
    }
    if error == 0 { Ok(()) } else { Err(error) }
}
