//! Accesses that may fault, and the hart's registers.

use core::arch::asm;

use poorwill_bare::hart::{self, time};
use poorwill_bare::{imsic, mmio, write_csr};

/// Cause of an access fault of an instruction (privileged specification, table of `scause`).
pub(crate) const INSTRUCTION_FAULT: u64 = 1;
/// The same of a load.
pub(crate) const LOAD_FAULT: u64 = 5;
/// The same of a store.
pub(crate) const STORE_FAULT: u64 = 7;

/// Runs one instruction with the address in `a0`; returns its trap's cause, or `None`.
macro_rules! attempt {
    ($address:expr, $instruction:literal) => {{
        let cause: u64;
        // SAFETY: a trap continues after the instruction. The addresses are not the program's own.
        unsafe {
            asm!(
                "lla  t0, 3f",
                "csrw stvec, t0",
                $instruction,
                "li   t0, -1",
                "j    4f",
                ".balign 4",
                "3:",
                "csrr t0, scause",
                "4:",
                in("a0") $address,
                out("t0") cause,
                out("t1") _,
                out("ra") _,
            );
        }
        (cause != u64::MAX).then_some(cause)
    }};
}

/// Loads four bytes.
pub(crate) fn load(address: u64) -> Option<u64> {
    attempt!(address, "lw t1, 0(a0)")
}

/// Stores four bytes.
pub(crate) fn store(address: u64) -> Option<u64> {
    attempt!(address, "sw a0, 0(a0)")
}

/// Jumps there.
pub(crate) fn execute(address: u64) -> Option<u64> {
    attempt!(address, "jalr ra, 0(a0)")
}

/// Writes a register of a device of its own.
pub(crate) fn write(address: u64, value: u32) {
    mmio::write32(address as usize, value);
}

/// Reads a register of a device of its own.
pub(crate) fn read(address: u64) -> u32 {
    mmio::read32(address as usize)
}

/// The register of the hart's interrupt file with the pending bit of an identity, and the bit. Each
/// register has 64 identities, and an even number (RISC-V AIA 1.0, 3.8.3).
fn pending_bit(identity: usize) -> (usize, usize) {
    (imsic::EIP0 + identity / 64 * 2, 1 << (identity % 64))
}

/// Whether an external interrupt is pending in the hart's interrupt file.
pub(crate) fn is_pending(identity: usize) -> bool {
    let (register, bit) = pending_bit(identity);
    imsic::read(register) & bit != 0
}

/// Whether the hart can enable external interrupts, or one is pending.
pub(crate) fn takes_external() -> bool {
    const EXTERNAL: u64 = 1 << 9;
    let (enabled, pending): (u64, u64);
    // SAFETY: `sstatus.SIE` is clear, so that interrupts run no code.
    unsafe {
        asm!("csrs sie, {0}", "csrr {1}, sie", "csrr {2}, sip", "csrc sie, {0}",
             in(reg) EXTERNAL, out(reg) enabled, out(reg) pending);
    }
    (enabled | pending) & EXTERNAL != 0
}

/// Makes it pending no more.
pub(crate) fn clear_pending(identity: usize) {
    let (register, bit) = pending_bit(identity);
    // SAFETY: the program takes no external interrupts, so that no code waits for the bit.
    unsafe { asm!("csrw siselect, {}", "csrc sireg, {}", in(reg) register, in(reg) bit) }
}

/// Sets the timer of the hart, whose interrupt ends a sleep and runs no code.
pub(crate) fn set_timer(ticks: u64) {
    const TIMER: usize = 1 << 5;
    hart::set_stimecmp(ticks);
    write_csr!("sie", TIMER);
}

/// Lets time pass, in units of 100 ns, without a wait for an interrupt.
pub(crate) fn spin(ticks: u64) {
    let end = time() + ticks;
    while time() < end {}
}
