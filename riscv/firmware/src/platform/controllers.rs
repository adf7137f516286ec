//! The interrupt controllers, which machine mode sets up at every power-on.

use poorwill_arch::{Mmio, imsic};
use poorwill_devicetree::{Machine, MessageFiles};
use poorwill_drivers::Controllers;

#[derive(Debug)]
pub(crate) struct Interrupts {
    shared: Controllers<Mmio>,
    files: MessageFiles,
}

impl Interrupts {
    /// The controllers that the device tree names.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine; one value for a machine.
    pub(crate) unsafe fn new(machine: &Machine) -> Self {
        let described = &machine.interrupts;
        // SAFETY: by the caller's contract the tree is right; it names these addresses as
        // controllers.
        let mmio = |address| unsafe { Mmio::new(address) };
        Interrupts {
            shared: Controllers::new(described, mmio),
            files: MessageFiles::new(&machine.harts, imsic::guest_files()),
        }
    }

    pub(crate) fn shared(&self) -> &Controllers<Mmio> {
        &self.shared
    }

    /// Returns whether the OS receives message-signalled interrupts at this address.
    pub(crate) fn takes_message(&self, address: u64) -> bool {
        self.files.take(address)
    }
}
