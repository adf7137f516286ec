//! A guest of one or two instructions (H extension): its results, and how it ended.

use crate::{arch::guard, write_csr};
use core::arch::{global_asm, naked_asm};

/// `scause` of a call from VS-mode.
pub(crate) const GUEST_CALL: usize = 10;

/// `hstatus.SPV`: the trap came from a guest.
pub(crate) const HSTATUS_SPV: usize = 1 << 7;
/// `hstatus.SPVP`: and from its supervisor.
pub(crate) const HSTATUS_SPVP: usize = 1 << 8;
/// `hstatus.GVA`: `stval` has a guest's virtual address.
pub(crate) const HSTATUS_GVA: usize = 1 << 6;

/// How a guest ended: with which trap, and what registers held then.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ended {
    /// a0
    pub(crate) a0: usize,
    /// `scause`
    pub(crate) scause: usize,
    /// `stval`
    pub(crate) stval: usize,
    /// `hstatus`
    pub(crate) hstatus: usize,
    /// `sepc`
    pub(crate) sepc: usize,
}

unsafe extern "C" {
    /// Loads a double word from the address in a0, and calls.
    safe fn guest_load();
    /// Stores zero to the address in a0, and calls.
    safe fn guest_store();
    /// Where a guest's own traps go: calls with its `scause` in a0.
    safe fn guest_trap();
}

global_asm!(
    ".option push",
    ".option norvc",
    ".balign 4",
    "guest_load:",
    "ld      a0, 0(a0)",
    "ecall",
    ".balign 4",
    "guest_store:",
    "sd      zero, 0(a0)",
    "ecall",
    ".balign 4",
    "guest_trap:",
    "csrr    a0, scause",
    "ecall",
    ".option pop",
);

/// Whether the hart can have guests.
pub(crate) fn is_there() -> bool {
    guard::read_hip().is_some()
}

/// Has a guest load from a physical address.
pub(crate) fn load(address: usize) -> Ended {
    run(guest_load as *const () as usize, address)
}

/// Has a guest store zero there.
pub(crate) fn store(address: usize) -> Ended {
    run(guest_store as *const () as usize, address)
}

/// Where the instructions of [`load`] and [`store`] are.
pub(crate) fn places() -> [usize; 2] {
    [
        guest_load as *const () as usize,
        guest_store as *const () as usize,
    ]
}

/// Lets guests handle these exceptions themselves: they end with a call then, and with
/// the cause in a0.
pub(crate) fn delegate(causes: usize) {
    write_csr!("0x205", guest_trap as *const () as usize);
    write_csr!("0x602", causes);
}

fn run(code: usize, argument: usize) -> Ended {
    guard::ensure_quiet();
    let mut ended = Ended::default();
    // SAFETY: the guest's code is above, changes a0 alone, and ends by a trap, with
    // addresses as they are; interrupts are off.
    unsafe { enter(code, argument, &raw mut ended) };
    ended
}

#[unsafe(naked)]
unsafe extern "C" fn enter(code: usize, argument: usize, ended: *mut Ended) {
    naked_asm!(
        "addi   sp, sp, -32",
        "sd     s0, 0(sp)",
        "sd     s1, 8(sp)",
        "mv     s0, a2",
        "la     t0, 2f",
        "csrrw  s1, stvec, t0",
        "csrw   sepc, a0",
        // SPV and SPVP; SPP.
        "li     t0, 0x180",
        "csrs   0x600, t0",
        "li     t0, 0x100",
        "csrs   sstatus, t0",
        "mv     a0, a1",
        "sret",
        ".balign 4",
        "2:",
        "csrw   stvec, s1",
        "sd     a0, 0(s0)",
        "csrr   t0, scause",
        "sd     t0, 8(s0)",
        "csrr   t0, stval",
        "sd     t0, 16(s0)",
        "csrr   t0, 0x600",
        "sd     t0, 24(s0)",
        "csrr   t0, sepc",
        "sd     t0, 32(s0)",
        "ld     s0, 0(sp)",
        "ld     s1, 8(sp)",
        "addi   sp, sp, 32",
        "ret",
    )
}
