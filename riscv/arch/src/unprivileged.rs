//! Loads with the OS's rights, at its virtual addresses.

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
