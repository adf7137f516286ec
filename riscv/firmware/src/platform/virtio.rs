//! Memory-mapped virtio devices.

use arrayvec::ArrayVec;
use poorwill_arch::Mmio;
use poorwill_devicetree::{MAX_VIRTIO, Machine};
use poorwill_drivers::VirtioMmio;
use spin::Once;

const _: () = assert!(MAX_VIRTIO <= 32, "a word has a bit for each device");

static DEVICES: Once<ArrayVec<u64, MAX_VIRTIO>> = Once::new();

/// Sets their addresses.
///
/// # Safety
///
/// `machine` describes this machine.
pub(super) unsafe fn start(machine: &Machine) {
    DEVICES.call_once(|| machine.virtio.clone());
}

/// The devices or empty slots, in the tree's order, with their addresses.
fn devices() -> impl Iterator<Item = (u64, VirtioMmio<Mmio>)> {
    // SAFETY: by the contract of `start` the tree is right; it names these addresses as registers.
    let device = |address| VirtioMmio::new(unsafe { Mmio::new(address) });
    let addresses = DEVICES.get().into_iter().flatten().copied();
    addresses.map(move |address| (address, device(address)))
}

/// Address of a device that its driver uses.
pub(crate) fn live() -> Option<u64> {
    let live = devices().find(|(_, device)| device.is_live());
    live.map(|(address, _)| address)
}

/// The devices that an OS has noticed without using them: a bit for each.
pub(super) fn acknowledged() -> u32 {
    let noticed = devices()
        .zip(0..)
        .filter(|((_, device), _)| device.is_acknowledged());
    noticed.fold(0, |all, (_, place)| all | 1 << place)
}

/// Sets these devices back to acknowledged.
pub(super) fn acknowledge(places: u32) {
    for ((_, device), place) in devices().zip(0..) {
        if places >> place & 1 != 0 {
            device.acknowledge();
        }
    }
}
