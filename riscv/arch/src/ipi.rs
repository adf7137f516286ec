//! How a hart is interrupted in machine mode.

use poorwill_devicetree as devicetree;
use poorwill_drivers::Registers;
use poorwill_hart::{IpiDevice, interrupt};

use crate::imsic::{MachineFile, claim_machine_interrupt};
use crate::{Mmio, fence};

/// The interrupt identity of machine-mode IPIs in an IMSIC file.
pub const IPI_IDENTITY: u32 = 1;

/// Gets the calling hart's own IMSIC file, if it has one, ready to receive IPIs.
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
    /// It has none: it is not interrupted, and looks by itself.
    None,
}

impl Ipi {
    /// The device that the tree names; MSIP where there are both.
    ///
    /// # Safety
    ///
    /// It is a hart of this machine.
    #[must_use]
    pub unsafe fn new(hart: &devicetree::Hart) -> Self {
        // SAFETY: the tree, which is right, says the caller, names these addresses
        // as registers of this machine.
        let mmio = |address| unsafe { Mmio::new(address) };
        match (hart.msip, hart.machine_imsic) {
            (Some(msip), _) => Ipi::Msip(mmio(msip)),
            (None, Some(file)) => Ipi::Imsic(mmio(file)),
            (None, None) => Ipi::None,
        }
    }
}

impl Ipi {
    /// The interrupt that it raises, as `mie` and `mip` have it. No other is answered: on
    /// a hart that is interrupted by MSIP, an external one could only be of a source that
    /// the OS has enabled for machine mode, and would come again and again.
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
