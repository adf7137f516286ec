//! The parts of a virtual hart's state.

use poorwill_hart::NEVER;
use poorwill_hart::emulation::status;

/// CSRs of a lent hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the specification's own names")]
pub struct Csrs {
    pub fcsr: u64,
    /// Without SD, which follows from FS and VS.
    pub sstatus: u64,
    pub sie: u64,
    pub stvec: u64,
    pub scounteren: u64,
    pub senvcfg: u64,
    pub sscratch: u64,
    pub sepc: u64,
    pub scause: u64,
    pub stval: u64,
    pub satp: u64,
    /// SSIP.
    pub software_interrupt: bool,
    /// Deadline of S-mode's timer: `stimecmp`, or that of the SBI.
    pub deadline: u64,
}

impl Default for Csrs {
    fn default() -> Self {
        Self::new()
    }
}

impl Csrs {
    pub(crate) const fn new() -> Self {
        Csrs {
            fcsr: 0,
            sstatus: 0,
            sie: 0,
            stvec: 0,
            scounteren: 0,
            senvcfg: 0,
            sscratch: 0,
            sepc: 0,
            scause: 0,
            stval: 0,
            satp: 0,
            software_interrupt: false,
            deadline: NEVER,
        }
    }

    /// Marks the floating-point unit as changed.
    pub(crate) fn touch_float(&mut self) {
        self.sstatus |= status::FS;
    }

    pub(crate) fn has_float(&self) -> bool {
        self.sstatus & status::FS != 0
    }

    /// `sstatus` as S-mode reads it.
    pub(crate) fn whole_status(&self) -> u64 {
        let is_dirty = |field| self.sstatus & field == field;
        let dirty = is_dirty(status::FS) || is_dirty(status::VS);
        self.sstatus | if dirty { status::SD } else { 0 }
    }
}

/// The reservation of `lr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Physical address.
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The loaded value. Devices may write there, too; `sc` succeeds only if it is still the same.
    pub(crate) value: u64,
}
