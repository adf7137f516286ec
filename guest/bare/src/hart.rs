//! The hart's registers and instructions.

use core::arch::asm;

/// Reads a CSR.
#[macro_export]
macro_rules! read_csr {
    ($name:literal) => {{
        let value: usize;
        // SAFETY: reading the CSRs that guests name has no side effect; one that the hart lacks
        // traps.
        unsafe { core::arch::asm!(concat!("csrr {}, ", $name), out(reg) value) };
        value
    }};
}

/// Writes a CSR.
#[macro_export]
macro_rules! write_csr {
    ($name:literal, $value:expr) => {{
        let value: usize = $value;
        // SAFETY: the CSRs that guests write hold no state that the compiler relies on: translation
        // stays off, and traps go to handlers that end the guest or restore what they changed.
        unsafe { core::arch::asm!(concat!("csrw ", $name, ", {}"), in(reg) value) };
    }};
}

/// Reads `time`.
#[inline]
pub fn time() -> u64 {
    let ticks;
    // SAFETY: reading the clock changes no state.
    unsafe { asm!("csrr {}, time", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Sets `stimecmp` of a hart with Sstc.
#[inline]
pub fn set_stimecmp(ticks: u64) {
    // SAFETY: the guest decides whether the timer's interrupt runs code.
    unsafe { asm!("csrw 0x14d, {}", in(reg) ticks, options(nomem, nostack)) }
}

/// Waits for an enabled interrupt.
#[inline]
pub fn wait() {
    // SAFETY: `wfi` changes no state.
    unsafe { asm!("wfi", options(nomem, nostack)) }
}

/// Does nothing from now on.
pub fn halt() -> ! {
    loop {
        wait();
    }
}
