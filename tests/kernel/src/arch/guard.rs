//! Runs code that may trap, and returns the trap.

use super::SSTATUS_SIE;
use crate::{read_csr, write_csr};
use core::arch::{asm, naked_asm};

/// `scause` of an instruction fetch that PMP or the bus refused.
pub(crate) const FETCH_FAULT: usize = 1;
/// `scause` of an instruction that this mode does not have.
pub(crate) const ILLEGAL_INSTRUCTION: usize = 2;
/// `scause` of a load that PMP or the bus refused.
pub(crate) const LOAD_FAULT: usize = 5;
/// `scause` of a store that PMP or the bus refused.
pub(crate) const STORE_FAULT: usize = 7;

/// What no trap has as its cause.
const NO_TRAP: usize = usize::MAX;

/// Runs one instruction with traps caught; evaluates to the trap's cause.
macro_rules! guarded {
    ($instruction:literal $(, $($operand:tt)*)?) => {{
        let mut cause = NO_TRAP;
        // SAFETY: only the named instruction runs. If it traps, the handler
        // is the next line but one, in the same frame; `stvec` is put back.
        // Interrupts are off all through (see `ensure_quiet`).
        unsafe {
            asm!(
                "la    {handler}, 2f",
                "csrrw {handler}, stvec, {handler}",
                $instruction,
                "j     3f",
                ".balign 4",
                "2:",
                "csrr  {cause}, scause",
                "3:",
                "csrw  stvec, {handler}",
                handler = out(reg) _,
                cause = inout(reg) cause,
                $($($operand)*)?
            );
        }
        (cause != NO_TRAP).then_some(cause)
    }};
}

pub(super) fn ensure_quiet() {
    assert!(
        read_csr!("sstatus") & SSTATUS_SIE == 0,
        "interrupts must be off"
    );
}

/// Loads a double word; the cause if that traps.
pub(crate) fn load64(address: usize) -> Option<usize> {
    ensure_quiet();
    guarded!("ld {value}, 0({address})", address = in(reg) address, value = out(reg) _)
}

/// Loads a word; the cause if that traps.
pub(crate) fn load32(address: usize) -> Option<usize> {
    ensure_quiet();
    guarded!("lw {value}, 0({address})", address = in(reg) address, value = out(reg) _)
}

/// Stores a word; the cause if that traps.
///
/// What is stored over must not be the test kernel's own.
pub(crate) fn store32(address: usize, value: u32) -> Option<usize> {
    ensure_quiet();
    guarded!("sw {value}, 0({address})", address = in(reg) address, value = in(reg) value)
}

/// Loads a word to nowhere; the cause if that traps.
pub(crate) fn load_nowhere(address: usize) -> Option<usize> {
    ensure_quiet();
    guarded!("lw zero, 0({address})", address = in(reg) address)
}

/// Adds nothing to a word, at once; the cause if that traps.
pub(crate) fn amo32(address: usize) -> Option<usize> {
    ensure_quiet();
    guarded!("amoadd.w {value}, zero, ({address})", address = in(reg) address, value = out(reg) _)
}

/// Loads a word to store there later; the cause if that traps.
pub(crate) fn reserve32(address: usize) -> Option<usize> {
    ensure_quiet();
    guarded!("lr.w {value}, ({address})", address = in(reg) address, value = out(reg) _)
}

/// Calls the code at `code`, which returns what it makes of `argument`, and does nothing
/// else; the cause if it traps.
pub(crate) fn call(code: usize, argument: usize) -> Result<usize, usize> {
    ensure_quiet();
    let mut value = argument;
    let cause = guarded!(
        "jalr ra, 0({code})",
        code = in(reg) code,
        inout("a0") value,
        out("ra") _,
    );
    cause.map_or(Ok(value), Err)
}

/// `stval` of the last trap.
pub(crate) fn last_address() -> usize {
    read_csr!("stval")
}

/// Reads `mstatus`, which S-mode must not; the cause if that traps.
pub(crate) fn read_machine_csr() -> Option<usize> {
    ensure_quiet();
    guarded!("csrr {value}, mstatus", value = out(reg) _)
}

/// Reads `senvcfg`, which a hart of before version 1.12 of the privileged
/// specification lacks; the cause if that traps.
pub(crate) fn read_senvcfg() -> Option<usize> {
    ensure_quiet();
    guarded!("csrr {value}, senvcfg", value = out(reg) _)
}

/// Reads `hip`, which a hart without the hypervisor extension lacks.
pub(crate) fn read_hip() -> Option<usize> {
    ensure_quiet();
    let mut pending = 0;
    let cause = guarded!("csrr {pending}, 0x644", pending = inout(reg) pending);
    cause.is_none().then_some(pending)
}

/// Swaps the seed CSR with zero, as reading it demands; the cause if that traps.
pub(crate) fn read_seed() -> Result<usize, usize> {
    ensure_quiet();
    let mut seed = 0;
    let cause = guarded!("csrrw {seed}, 0x015, zero", seed = inout(reg) seed);
    cause.map_or(Ok(seed), Err)
}

/// Fetches an instruction at `address`; the cause if that traps.
///
/// If it does not trap, the case is lost in the code there, as it should be.
pub(crate) fn fetch(address: usize) -> Option<usize> {
    ensure_quiet();
    guarded!(
        "jalr ra, 0({address})",
        address = in(reg) address,
        out("ra") _,
    )
}

/// Lets the interrupts in `mask` in for up to `ticks`, and says with which
/// cause a trap came, if one came.
pub(crate) fn wait_for_interrupt(mask: usize, ticks: u64) -> Option<usize> {
    ensure_quiet();
    let old_enables = read_csr!("sie");
    write_csr!("sie", mask);
    let end = super::time().saturating_add(ticks);
    // SAFETY: `wait` keeps to the C calling convention.
    let cause = unsafe { wait(end) };
    write_csr!("sie", old_enables);
    (cause != NO_TRAP).then_some(cause)
}

/// Spins with interrupts on until `time` reaches `end`, or a trap comes.
#[unsafe(naked)]
unsafe extern "C" fn wait(end: u64) -> usize {
    naked_asm!(
        "la    t0, 2f",
        "csrrw t0, stvec, t0",
        "csrsi sstatus, 2",
        "1:",
        "csrr  t1, time",
        "bltu  t1, a0, 1b",
        "csrci sstatus, 2",
        "li    a0, -1",
        "j     3f",
        ".balign 4",
        "2:",
        "csrr  a0, scause",
        "3:",
        "csrw  stvec, t0",
        "ret",
    )
}
