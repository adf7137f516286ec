//! How a hart is interrupted in machine mode.

use poorwill_arch::Mmio;
use poorwill_arch::fence;
use poorwill_devicetree as devicetree;
use poorwill_drivers::Registers;
use poorwill_hart::IpiDevice;

use super::interrupts;
use crate::entry::IPI_IDENTITY;

/// The device that interrupts one hart.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ipi {
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
    pub(crate) unsafe fn new(hart: &devicetree::Hart) -> Self {
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
            Ipi::Imsic(_) => interrupts::take_machine_interrupts(),
            Ipi::None => {}
        }
        fence::after_device_write();
    }
}
