//! Inter-processor interrupts of machine mode.

use poorwill_devicetree as devicetree;
use poorwill_drivers::Registers;
use poorwill_hart::{IpiDevice, interrupt};

use crate::imsic::{MachineFile, claim_machine_interrupt};
use crate::{Mmio, fence};

/// The interrupt identity of machine-mode IPIs in an IMSIC file.
pub const IPI_IDENTITY: u32 = 1;

/// Prepares the calling hart's own IMSIC file for IPIs, if it has one.
pub fn start_hart(hart: &devicetree::Hart) {
    if hart.machine_imsic.is_some() {
        poorwill_drivers::imsic::open(&MachineFile, IPI_IDENTITY);
    }
}

/// The device that interrupts one hart.
#[derive(Clone, Copy, Debug)]
pub enum Ipi {
    /// Its MSIP register (RISC-V ACLINT 1.0, chapter 3): one sends, zero clears.
    Msip(Mmio),
    /// Its machine-mode IMSIC file.
    Imsic(Mmio),
    /// The hart has no such device: it polls its mailbox.
    None,
}

impl Ipi {
    /// The device that the tree names; MSIP if there are both.
    ///
    /// # Safety
    ///
    /// `hart` describes a hart of this machine.
    #[must_use]
    pub unsafe fn new(hart: &devicetree::Hart) -> Self {
        // SAFETY: by the caller's contract the tree is right; it names these addresses as
        // registers.
        let mmio = |address| unsafe { Mmio::new(address) };
        match (hart.msip, hart.machine_imsic) {
            (Some(msip), _) => Ipi::Msip(mmio(msip)),
            (None, Some(file)) => Ipi::Imsic(mmio(file.address)),
            (None, None) => Ipi::None,
        }
    }

    /// The bit in `mie` and `mip` of the interrupt that the device raises. No other bit is served.
    /// With MSIP, external interrupts could only come from a source that the OS has
    /// enabled for machine mode, and would repeat forever.
    #[must_use]
    pub fn interrupt(&self) -> u64 {
        match self {
            Ipi::Msip(_) => interrupt::MSI,
            Ipi::Imsic(_) => interrupt::MEI,
            Ipi::None => 0,
        }
    }
}

impl IpiDevice for Ipi {
    fn send(&self) {
        fence::before_device_write();
        match self {
            Ipi::Msip(register) => register.write(0, 1_u32),
            Ipi::Imsic(file) => file.write(0, IPI_IDENTITY),
            Ipi::None => {}
        }
    }

    fn clear(&self) {
        match self {
            Ipi::Msip(register) => register.write(0, 0_u32),
            Ipi::Imsic(_) => claim_machine_interrupt(),
            Ipi::None => {}
        }
        fence::after_device_write();
    }
}
