//! QEMU's device for teaching, `edu`, which writes to memory some time after a command (QEMU,
//! docs/specs/edu.rst).

use crate::{machine::Machine, mmio};

/// Vendor and device.
const ID: u32 = 0x11e8_1234;
/// Where it answers: within the window for such addresses of `virt`'s host bridge.
const REGISTERS: usize = 0x5000_0000;
/// It decodes, and has access to memory.
const COMMAND: u32 = 1 << 1 | 1 << 2;
/// Where its own memory begins for it.
const BUFFER: u64 = 0x4_0000;
/// What it is told: to write to our memory.
const START: u64 = 1 << 0 | 1 << 1;

/// Has the device write zeros to the page at `target`, a tenth of a second from now.
pub(crate) fn write_later(machine: &Machine, target: usize) {
    let ecam = machine.ecam.expect("a PCI host bridge");
    let mut slots = (0..32).map(|device: usize| ecam + (device << 15));
    let function = slots.find(|slot| mmio::read32(*slot) == ID);
    let function = function.expect("a device for teaching");
    mmio::write32(
        function + 0x10,
        u32::try_from(REGISTERS).expect("of 32 bits"),
    );
    mmio::write32(function + 4, COMMAND);
    for (offset, value) in [
        (0x80, BUFFER),
        (0x88, target as u64),
        (0x90, 4096),
        (0x98, START),
    ] {
        mmio::write64(REGISTERS + offset, value);
    }
}
