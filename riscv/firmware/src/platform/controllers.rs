//! The interrupt controllers, which machine mode sets up at every power-on.

use poorwill_arch::{Mmio, imsic};
use poorwill_devicetree::{Machine, MessageFiles};
use poorwill_drivers::{Controllers, OwnControllers};

#[derive(Debug)]
pub(crate) struct Interrupts {
    shared: Controllers<Mmio>,
    files: MessageFiles,
}

impl Interrupts {
    /// The controllers that the device tree names. `owner` gives the index of the domain that may
    /// access an address.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine; one value for a machine.
    pub(crate) unsafe fn new(machine: &Machine, owner: impl Fn(u64) -> u8) -> Self {
        let described = &machine.interrupts;
        // SAFETY: by the caller's contract the tree is right; it names these addresses as
        // controllers.
        let mmio = |address| unsafe { Mmio::new(address) };
        Interrupts {
            shared: Controllers::new(described, mmio, owner),
            files: MessageFiles::new(&machine.harts, imsic::guest_files()),
        }
    }

    pub(crate) fn shared(&self) -> &Controllers<Mmio> {
        &self.shared
    }

    /// The controllers of the domain with this index.
    pub(crate) fn of(&self, domain: u8) -> OwnControllers<'_, Mmio> {
        self.shared.of(domain)
    }

    /// Returns whether the OS receives message-signalled interrupts at this address.
    pub(crate) fn takes_message(&self, address: u64) -> bool {
        self.files.take(address)
    }
}
