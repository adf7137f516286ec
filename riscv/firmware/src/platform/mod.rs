//! The machine: its device tree, and machine mode's devices.

pub(crate) mod bus;
mod caches;
pub(crate) mod console;
mod controllers;
mod devices;
pub(crate) mod entropy;
mod flash;
pub(crate) mod generation_id;
pub(crate) mod interrupts;
pub(crate) mod loaded;
pub(crate) mod mediated;
pub(crate) mod memory_controller;
pub(crate) mod power;
pub(crate) mod power_fail;
pub(crate) mod ram;
pub(crate) mod uarts;
pub(crate) mod vault;
pub(crate) mod virtio;
pub(crate) mod wait_clock;

use poorwill_devicetree::Machine;
use poorwill_store::RecordFormat;

pub(crate) use devices::{Platform, milliseconds, platform, set_platform};
pub(crate) use ram::firmware_range;

/// Sets up the console and the switches, so that errors can be reported, also those in the rest of
/// the tree.
///
/// # Safety
///
/// `machine` describes this machine, even if incompletely, and this is called once.
pub(crate) unsafe fn start_console(machine: &Machine) {
    // SAFETY: passed on to the caller.
    unsafe {
        if let Some(uart) = machine.console {
            console::start(uart);
        }
        power::start(machine);
        console::start_log(ram::log(firmware_range()));
    }
}

impl Platform {
    /// Returns whether the machine keeps sets, on a disk of machine mode.
    pub(crate) fn keeps_sets(&self) -> bool {
        self.keeps == Some(RecordFormat::Set)
    }

    /// Opens the IOMMUs that the device tree names, so that disks reach memory.
    pub(crate) fn open_iommus(&self) {
        for (address, iommu) in &self.iommus {
            if let Err(error) = iommu.open() {
                console::say!("IOMMU at {address:#x}: {error}");
            }
        }
    }
}
