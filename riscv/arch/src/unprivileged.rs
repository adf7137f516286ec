//! Loads with the OS's rights, at its virtual addresses (`mstatus.MPRV`).

use core::arch::asm;

use crate::csr::{self, status};

/// The trap that a load raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadFault {
    /// `mcause`.
    pub cause: u64,
    /// `mtval`.
    pub value: u64,
}

/// Loads a double word with the rights of the calling S-mode: translation, `SUM`, `MXR` and PMP
/// apply (`mstatus.MPRV`).
///
/// Traps are caught as by the crate's `probe!`. A trap sets MPP to machine mode, which ends the
/// effect of MPRV. Interrupts are off throughout.
///
/// # Errors
///
/// [`LoadFault`]: the trap that S-mode's own load would have raised.
pub fn load_as_supervisor(address: u64) -> Result<u64, LoadFault> {
    let now = csr::read::<{ csr::MSTATUS }>();
    let before = now & !status::MIE;
    let as_supervisor =
        before & !(status::MPP | status::MPV) | status::MPP_SUPERVISOR | status::MPRV;
    let mut value: u64 = 0;
    let there: usize;
    // SAFETY: S-mode may do this load. `mtvec` and `mstatus` are restored. The trap frame holds the
    // OS's values of the CSRs that a trap changes.
    unsafe {
        asm!(
            "csrci  mstatus, {interrupts}",
            "la     {old}, 2f",
            "csrrw  {old}, mtvec, {old}",
            "li     {there}, 0",
            "csrw   mstatus, {as_supervisor}",
            "ld     {value}, 0({address})",
            "li     {there}, 1",
            ".balign 4",
            "2: csrw mstatus, {before}",
            "csrw   mtvec, {old}",
            "csrs   mstatus, {enabled}",
            interrupts = const status::MIE,
            old = out(reg) _,
            there = out(reg) there,
            as_supervisor = in(reg) as_supervisor,
            before = in(reg) before,
            address = in(reg) address,
            value = inout(reg) value,
            enabled = in(reg) now & status::MIE,
            options(nostack),
        );
    }
    if there != 0 {
        return Ok(value);
    }
    Err(LoadFault {
        cause: csr::read::<{ csr::MCAUSE }>(),
        value: csr::read::<{ csr::MTVAL }>(),
    })
}

/// Loads the 32 bits at `pc` with the rights of the caller that trapped there. `None` if it may not
/// load them, or its data is big-endian. It may still execute them, and they may be two instructions.
///
/// `mstatus` is as the trap has left it: no other trap has come since. A trap here is caught as in
/// [`load_as_supervisor`]. MXR opens pages that the caller may only execute.
pub fn load_code(pc: u64) -> Option<u32> {
    let (mut low, mut high, mut there) = (0_u32, 0_u32, 0_usize);
    // SAFETY: the caller has executed there, so a load has no effect. `mtvec` and `mstatus` are
    // restored. The trap frame holds the OS's values of the CSRs that a trap changes.
    unsafe {
        asm!(
            "la     {vector}, 2f",
            "csrrw  {vector}, mtvec, {vector}",
            "csrrs  {status}, mstatus, {status}",
            "lhu    {low}, 0({pc})",
            "lhu    {high}, 2({pc})",
            "li     {there}, 1",
            ".balign 4",
            "2: csrw mstatus, {status}",
            "csrw   mtvec, {vector}",
            vector = out(reg) _,
            status = inout(reg) status::MPRV | status::MXR => _,
            low = inout(reg) low,
            high = inout(reg) high,
            pc = in(reg) pc,
            there = inout(reg) there,
            options(nostack),
        );
    }
    (there != 0).then_some(high << 16 | low)
}
