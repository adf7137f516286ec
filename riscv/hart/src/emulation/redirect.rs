use super::fault::{Fault, cause, status};
use crate::{Csr, CsrAccess};

/// Bits of `hstatus` (H extension, 18.2.1).
mod hstatus {
    pub(super) const GVA: u64 = 1 << 6;
    pub(super) const SPV: u64 = 1 << 7;
    pub(super) const SPVP: u64 = 1 << 8;
}

/// Values of the CSRs for the return from machine mode to the OS's exception handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirected {
    /// `mepc`.
    pub pc: u64,
    /// `mstatus`.
    pub status: u64,
}

/// Delivers an exception to S-mode, or to the guest's VS-mode if the hypervisor has delegated it.
/// The result is that of a delegation by machine mode (privileged specification, 3.1.8, 12.1; H
/// extension, 18.6; Zicfilp).
///
/// `sstatus.SDT` and `vsstatus.SDT` are zero and stay zero: machine mode does not enable double
/// traps for the OS.
pub fn redirect(fault: &Fault, hart: &impl CsrAccess) -> Redirected {
    let from_guest = status::is_guest(fault.status);
    if from_guest && is_delegated(fault.cause, hart) {
        return to_guest(fault, hart);
    }
    if let Some(before) = hart.read_csr(Csr::Hstatus) {
        hart.write_csr(Csr::Hstatus, hypervisor_status(before, fault));
        hart.write_csr(Csr::Htval, fault.guest_address);
        hart.write_csr(Csr::Htinst, fault.instruction);
    }
    hart.write_csr(Csr::Sepc, fault.pc);
    hart.write_csr(Csr::Scause, fault.cause);
    hart.write_csr(Csr::Stval, fault.value);
    let status = trapped(fault.status, fault.status) & !(status::MPV | status::MPELP);
    Redirected {
        pc: base(hart.read_csr(Csr::Stvec)),
        status: status & !status::MPP | status::MPP_SUPERVISOR,
    }
}

/// Returns whether the hypervisor has delegated the exception to its guests.
fn is_delegated(cause: u64, hart: &impl CsrAccess) -> bool {
    let delegated = hart.read_csr(Csr::Hedeleg).unwrap_or(0);
    cause < u64::from(u64::BITS) && delegated >> cause & 1 != 0
}

fn to_guest(fault: &Fault, hart: &impl CsrAccess) -> Redirected {
    let before = hart.read_csr(Csr::Vsstatus).unwrap_or(0);
    hart.write_csr(Csr::Vsstatus, trapped(before, fault.status));
    hart.write_csr(Csr::Vsepc, fault.pc);
    hart.write_csr(Csr::Vscause, fault.cause);
    hart.write_csr(Csr::Vstval, fault.value);
    Redirected {
        pc: base(hart.read_csr(Csr::Vstvec)),
        status: fault.status & !(status::MPP | status::MPELP) | status::MPP_SUPERVISOR,
    }
}

/// `sstatus` or `vsstatus` after a trap; `machine` is `mstatus` at the trap.
fn trapped(before: u64, machine: u64) -> u64 {
    let cleared = before & !(status::SPP | status::SPIE | status::SIE | status::SPELP);
    let landing_pad = if machine & status::MPELP != 0 {
        status::SPELP
    } else {
        0
    };
    let previous = if status::is_supervisor(machine) {
        status::SPP
    } else {
        0
    };
    let enabled = if before & status::SIE != 0 {
        status::SPIE
    } else {
        0
    };
    cleared | previous | enabled | landing_pad
}

/// `hstatus` after the trap.
fn hypervisor_status(before: u64, fault: &Fault) -> u64 {
    let machine = fault.status;
    let mut after = before & !(hstatus::GVA | hstatus::SPV);
    // QEMU sets mstatus.GVA also if `mtval` is an instruction.
    let is_address =
        ![cause::ILLEGAL_INSTRUCTION, cause::VIRTUAL_INSTRUCTION].contains(&fault.cause);
    if is_address && machine & status::GVA != 0 {
        after |= hstatus::GVA;
    }
    if status::is_guest(machine) {
        after = (after | hstatus::SPV) & !hstatus::SPVP;
        if status::is_supervisor(machine) {
            after |= hstatus::SPVP;
        }
    }
    after
}

/// Address for exceptions, in both modes of `stvec`.
fn base(vector: Option<u64>) -> u64 {
    vector.unwrap_or(0) & !3
}
