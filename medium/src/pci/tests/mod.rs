//! Search and loan on modelled hierarchies.
#![allow(
    clippy::cast_possible_truncation,
    reason = "registers are cut from words"
)]

mod claims;
mod decode;
mod os;
mod properties;

use super::{Location, Step};

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
