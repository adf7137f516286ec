//! A PCI function with virtual ones (SR-IOV), set up as by a driver.

use crate::{machine::Machine, mmio};

/// The identifier of the extended capability.
const SRIOV: u32 = 0x10;
/// From its start: control, how many virtual functions there are at most, and how many
/// there are to be.
const CONTROL: usize = 0x08;
const TOTAL: usize = 0x0c;
const NUMBER: usize = 0x10;
/// Of the function: it answers at addresses of memory.
const COMMAND: usize = 0x04;
const DECODES_MEMORY: u32 = 1 << 1;
/// Virtual functions are there.
const ENABLE: u32 = 1;

/// Enables one virtual function of the first function of bus 0 that can have any.
///
/// # Panics
/// If there is none.
pub(crate) fn enable(machine: &Machine) {
    let capability = capability(machine).1;
    assert!(mmio::read32(capability + TOTAL) >> 16 != 0, "room for one");
    mmio::write32(capability + NUMBER, 1);
    mmio::write32(capability + CONTROL, ENABLE);
    assert!(mmio::read32(capability + CONTROL) & ENABLE != 0, "enabled");
}

/// Has that function answer at its addresses, without access to memory.
///
/// # Panics
/// If there is none.
pub(crate) fn decode(machine: &Machine) {
    mmio::write32(capability(machine).0 + COMMAND, DECODES_MEMORY);
}

/// The first function of bus 0 that can have virtual ones, and its capability.
fn capability(machine: &Machine) -> (usize, usize) {
    let ecam = machine.ecam.expect("a PCI host bridge");
    (0..32)
        .map(|device: usize| ecam + (device << 15))
        .filter(|function| mmio::read32(*function) != u32::MAX)
        .find_map(|function| Some((function, find(function)?)))
        .expect("a function with virtual ones")
}

fn find(function: usize) -> Option<usize> {
    let mut offset = 0x100;
    loop {
        let header = mmio::read32(function + offset);
        if header & 0xffff == SRIOV {
            return Some(function + offset);
        }
        offset = (header >> 20) as usize & 0xffc;
        if header == 0 || header == u32::MAX || offset < 0x100 {
            return None;
        }
    }
}
