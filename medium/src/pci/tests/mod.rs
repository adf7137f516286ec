//! Search and loan on modelled hierarchies.
#![allow(
    clippy::cast_possible_truncation,
    reason = "registers are cut from words"
)]

mod claims;
mod decode;
mod model;
mod os;
mod properties;

use arrayvec::ArrayVec;

use super::{HostBridge, Location, Step, Window, WindowKind};

/// The windows of QEMU's `virt` machine, the upper one at another address for
/// the CPU than on the bus.
fn host() -> HostBridge {
    let low = Window {
        kind: WindowKind::Memory32,
        prefetchable: false,
        pci_address: 0x4000_0000,
        cpu_address: 0x4000_0000,
        length: 0x4000_0000,
    };
    let high = Window {
        kind: WindowKind::Memory64,
        pci_address: 0x4_0000_0000,
        cpu_address: 0x5_0000_0000,
        length: 0x4_0000_0000,
        ..low
    };
    HostBridge {
        first_bus: 0,
        last_bus: 255,
        windows: ArrayVec::from_iter([low, high]),
    }
}

fn step(device: u8) -> Step {
    Step {
        device,
        function: 0,
    }
}

fn location(bridges: &[u8], controller: u8) -> Location {
    let bridges: Vec<Step> = bridges.iter().map(|&device| step(device)).collect();
    Location::new(&bridges, step(controller)).unwrap()
}
