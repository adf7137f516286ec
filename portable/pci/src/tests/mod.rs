//! Search and use on modelled hierarchies.
#![allow(
    clippy::cast_possible_truncation,
    reason = "registers are cut from words"
)]

pub(super) mod decode;
mod device_handles;
mod memory_devices;
pub(super) mod os;
mod properties;
mod silence;
mod virtual_functions;

use super::{Kind, Location, Step};

fn step(device: u8) -> Step {
    Step {
        device,
        function: 0,
    }
}

fn location(bridges: &[u8], controller: u8) -> Location {
    location_of(Kind::Nvme, bridges, controller)
}

fn location_of(kind: Kind, bridges: &[u8], device: u8) -> Location {
    let bridges: Vec<Step> = bridges.iter().map(|&device| step(device)).collect();
    Location::new(kind, &bridges, step(device)).unwrap()
}
