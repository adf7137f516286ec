//! The calling hart's interrupt files, through their CSRs (AIA, section 3.7).

use poorwill_drivers::Registers;

use crate::csr;

/// The OS's file.
#[derive(Clone, Copy, Debug)]
pub struct SupervisorFile;

impl SupervisorFile {
    /// Lets `siselect` choose a register for as long as `access` takes.
    pub(crate) fn select<R>(number: u64, access: impl FnOnce() -> R) -> R {
        let selected = csr::read::<{ csr::SISELECT }>();
        // SAFETY: siselect only chooses what sireg means, and gets the OS's own
        // value back.
        unsafe { csr::write::<{ csr::SISELECT }>(number) };
        let result = access();
        // SAFETY: it is the OS's own value.
        unsafe { csr::write::<{ csr::SISELECT }>(selected) };
        result
    }
}

impl Registers<u64> for SupervisorFile {
    fn read(&self, number: u64) -> u64 {
        Self::select(number, csr::read::<{ csr::SIREG }>)
    }

    fn write(&self, number: u64, value: u64) {
        // SAFETY: the file is the OS's, and no register of it touches machine mode.
        Self::select(number, || unsafe { csr::write::<{ csr::SIREG }>(value) });
    }
}

/// A guest's file (AIA, 3.7), which `hstatus.VGEIN` chooses; the first is 1.
#[derive(Clone, Copy, Debug)]
pub struct GuestFile(pub u64);

impl GuestFile {
    /// Lets `vsiselect` choose a register of the file for as long as `access` takes.
    fn select<R>(self, number: u64, access: impl FnOnce() -> R) -> R {
        const VGEIN: u64 = 0x3f << 12;
        let status = csr::read::<{ csr::HSTATUS }>();
        let selected = csr::read::<{ csr::VSISELECT }>();
        // SAFETY: both only choose what vsireg means, and get the OS's own values back.
        unsafe {
            csr::write::<{ csr::HSTATUS }>(status & !VGEIN | self.0 << 12);
            csr::write::<{ csr::VSISELECT }>(number);
        }
        let result = access();
        // SAFETY: they are the OS's own values.
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
        // SAFETY: the file is the OS's, and no register of it touches machine mode.
        self.select(number, || unsafe { csr::write::<{ csr::VSIREG }>(value) });
    }
}

/// How many interrupt files for guests the calling hart has (GEILEN); 0 without the H
/// extension. The OS's choice of guests that interrupt it stays.
pub fn guest_files() -> u32 {
    let Some(enabled) = csr::try_read::<{ csr::HGEIE }>() else {
        return 0;
    };
    // SAFETY: S-mode's own register, which machine mode does not rely on, and which gets
    // its value back. Bit 0 is none's (privileged specification, 15.2.4).
    unsafe {
        csr::write::<{ csr::HGEIE }>(u64::MAX);
        let there = csr::read::<{ csr::HGEIE }>();
        csr::write::<{ csr::HGEIE }>(enabled);
        (there >> 1).count_ones()
    }
}

/// Machine mode's file.
#[derive(Clone, Copy, Debug)]
pub struct MachineFile;

impl Registers<u64> for MachineFile {
    fn read(&self, number: u64) -> u64 {
        // SAFETY: miselect only chooses what mireg means, for this access.
        unsafe { csr::write::<{ csr::MISELECT }>(number) };
        csr::read::<{ csr::MIREG }>()
    }

    fn write(&self, number: u64, value: u64) {
        // SAFETY: the machine-mode file is ours alone.
        unsafe {
            csr::write::<{ csr::MISELECT }>(number);
            csr::write::<{ csr::MIREG }>(value);
        }
    }
}

/// The identity that is pending in the machine-mode file, the lowest of several; 0 where
/// none is.
pub fn pending_machine_interrupt() -> u64 {
    csr::read::<{ csr::MTOPEI }>() >> 16
}

/// Claims what is pending in the machine-mode file, the lowest identity of several. One that
/// comes in afterwards is pending again.
pub fn claim_machine_interrupt() {
    // SAFETY: writing mtopei claims the interrupt that it names, if any (AIA, 3.9).
    unsafe { csr::write::<{ csr::MTOPEI }>(0) };
}
