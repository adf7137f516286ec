//! The calling hart's interrupt files, through their CSRs (AIA, section 3.7).

use poorwill_drivers::Registers;

use crate::csr;

/// The OS's interrupt file.
#[derive(Clone, Copy, Debug)]
pub struct SupervisorFile;

impl SupervisorFile {
    /// Runs `access` with `siselect` set to `number`, then restores `siselect`.
    pub(crate) fn select<R>(number: u64, access: impl FnOnce() -> R) -> R {
        let selected = csr::read::<{ csr::SISELECT }>();
        // SAFETY: siselect only chooses the register behind sireg; its old value is restored below.
        unsafe { csr::write::<{ csr::SISELECT }>(number) };
        let result = access();
        // SAFETY: the OS's own value.
        unsafe { csr::write::<{ csr::SISELECT }>(selected) };
        result
    }
}

impl Registers<u64> for SupervisorFile {
    fn read(&self, number: u64) -> u64 {
        Self::select(number, csr::read::<{ csr::SIREG }>)
    }

    fn write(&self, number: u64, value: u64) {
        // SAFETY: the file is the OS's; none of its registers affects machine mode.
        Self::select(number, || unsafe { csr::write::<{ csr::SIREG }>(value) });
    }
}

/// A guest's interrupt file (AIA, 3.7), by its number in `hstatus.VGEIN`; the first is 1.
#[derive(Clone, Copy, Debug)]
pub struct GuestFile(pub u64);

impl GuestFile {
    /// Runs `access` with `vsiselect` set to `number` for this file, then restores both CSRs.
    fn select<R>(self, number: u64, access: impl FnOnce() -> R) -> R {
        const VGEIN: u64 = 0x3f << 12;
        let status = csr::read::<{ csr::HSTATUS }>();
        let selected = csr::read::<{ csr::VSISELECT }>();
        // SAFETY: both only choose the register behind vsireg; their old values are restored below.
        unsafe {
            csr::write::<{ csr::HSTATUS }>(status & !VGEIN | self.0 << 12);
            csr::write::<{ csr::VSISELECT }>(number);
        }
        let result = access();
        // SAFETY: the OS's own values.
        unsafe {
            csr::write::<{ csr::VSISELECT }>(selected);
            csr::write::<{ csr::HSTATUS }>(status);
        }
        result
    }
}

impl Registers<u64> for GuestFile {
    fn read(&self, number: u64) -> u64 {
        self.select(number, csr::read::<{ csr::VSIREG }>)
    }

    fn write(&self, number: u64, value: u64) {
        // SAFETY: the file is the OS's; none of its registers affects machine mode.
        self.select(number, || unsafe { csr::write::<{ csr::VSIREG }>(value) });
    }
}

/// Number of guest interrupt files of the calling hart (GEILEN); 0 without the H extension. The
/// OS's `hgeie` keeps its value.
pub fn guest_files() -> u32 {
    let Some(enabled) = csr::try_read::<{ csr::HGEIE }>() else {
        return 0;
    };
    // SAFETY: machine mode does not rely on this S-mode register, and its value is restored. Bit 0
    // stands for no guest (privileged specification, 15.2.4).
    unsafe {
        csr::write::<{ csr::HGEIE }>(u64::MAX);
        let there = csr::read::<{ csr::HGEIE }>();
        csr::write::<{ csr::HGEIE }>(enabled);
        (there >> 1).count_ones()
    }
}

/// Machine mode's interrupt file.
#[derive(Clone, Copy, Debug)]
pub struct MachineFile;

impl Registers<u64> for MachineFile {
    fn read(&self, number: u64) -> u64 {
        // SAFETY: miselect only chooses the register behind mireg, for this access.
        unsafe { csr::write::<{ csr::MISELECT }>(number) };
        csr::read::<{ csr::MIREG }>()
    }

    fn write(&self, number: u64, value: u64) {
        // SAFETY: only the firmware uses the machine-mode file.
        unsafe {
            csr::write::<{ csr::MISELECT }>(number);
            csr::write::<{ csr::MIREG }>(value);
        }
    }
}

/// The lowest pending identity in the machine-mode file, or 0.
pub fn pending_machine_interrupt() -> u64 {
    csr::read::<{ csr::MTOPEI }>() >> 16
}

/// Claims the lowest pending identity in the machine-mode file. An identity that arrives later is
/// pending again.
pub fn claim_machine_interrupt() {
    // SAFETY: writing mtopei claims the pending interrupt, if there is one (AIA, 3.9).
    unsafe { csr::write::<{ csr::MTOPEI }>(0) };
}
