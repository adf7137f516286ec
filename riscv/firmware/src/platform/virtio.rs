//! Virtio devices that are no PCI functions.

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_devicetree::{MAX_VIRTIO, Machine};
use poorwill_drivers::VirtioMmio;
use spin::Once;

/// Their addresses.
static DEVICES: Once<ArrayVec<u64, MAX_VIRTIO>> = Once::new();

/// Learns where they are.
///
/// # Safety
///
/// `machine` describes this machine.
pub(super) unsafe fn start(machine: &Machine) {
    DEVICES.call_once(|| machine.virtio.clone());
}

/// The address of one that its driver uses.
pub(crate) fn live() -> Option<u64> {
    // SAFETY: the tree, which is right, says who called `start`, names these addresses as
    // registers of this machine.
    let device = |address| VirtioMmio::new(unsafe { Mmio::new(address) });
    let mut devices = DEVICES.get().into_iter().flatten().copied();
    devices.find(|address| device(*address).is_live())
}
