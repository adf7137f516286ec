//! A memory-mapped virtio device (Virtual I/O Device specification 1.3, 4.2). It accesses memory,
//! and only its driver can stop it. Machine mode only reads and acknowledges its status.

use crate::Registers;

/// Register offsets (4.2.2 and 4.2.4; the same in the legacy interface).
mod register {
    pub(super) const MAGIC: u64 = 0;
    pub(super) const DEVICE: u64 = 0x8;
    pub(super) const STATUS: u64 = 0x70;
}

/// "virt".
const MAGIC: u32 = u32::from_le_bytes(*b"virt");

/// The OS has noticed the device (2.1). Linux sets this before it looks for a driver.
const ACKNOWLEDGE: u32 = 1 << 0;

/// A device, or an empty slot.
#[derive(Clone, Copy, Debug)]
pub struct VirtioMmio<R> {
    registers: R,
}

impl<R: Registers<u32>> VirtioMmio<R> {
    /// The slot with these registers.
    pub fn new(registers: R) -> Self {
        VirtioMmio { registers }
    }

    /// Returns whether a driver uses a device here. The state of its queues is ignored: until a
    /// reset, QEMU's devices write even to queues that are no longer ready.
    pub fn is_live(&self) -> bool {
        self.status().is_some_and(is_driven)
    }

    /// Returns whether an OS has noticed a device here, without using it.
    pub fn is_acknowledged(&self) -> bool {
        self.status() == Some(ACKNOWLEDGE)
    }

    /// Sets the status back to acknowledged after a reset.
    pub fn acknowledge(&self) {
        if self.status() == Some(0) {
            self.registers.write(register::STATUS, ACKNOWLEDGE);
        }
    }

    /// Status of the device; `None` for an empty slot.
    fn status(&self) -> Option<u32> {
        let is_there = self.registers.read(register::MAGIC) == MAGIC
            && self.registers.read(register::DEVICE) != 0;
        is_there.then(|| self.registers.read(register::STATUS))
    }
}

/// Returns whether a driver uses a device with this status, sets it up, or has failed (2.1). Only
/// the driver can restore such a device.
#[must_use]
pub const fn is_driven(status: u32) -> bool {
    status & !ACKNOWLEDGE != 0
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Model([Cell<u32>; 3]);

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            match offset {
                register::MAGIC => self.0[0].get(),
                register::DEVICE => self.0[1].get(),
                register::STATUS => self.0[2].get(),
                other => panic!("{other:#x} is not read"),
            }
        }

        fn write(&self, offset: u64, value: u32) {
            assert_eq!(offset, register::STATUS);
            self.0[2].set(value);
        }
    }

    #[test]
    fn a_device_is_live_from_its_drivers_first_word() {
        for (registers, is_live, is_acknowledged) in [
            ([MAGIC, 4, 0xf], true, false),
            ([MAGIC, 4, 7], true, false),
            ([MAGIC, 4, 0xb], true, false),
            ([MAGIC, 4, 3], true, false),
            ([MAGIC, 4, 0x83], true, false),
            ([MAGIC, 4, 1], false, true),
            ([MAGIC, 4, 0], false, false),
            ([MAGIC, 0, 7], false, false),
            ([0, 4, 7], false, false),
        ] {
            let device = VirtioMmio::new(Model(registers.map(Cell::new)));
            assert_eq!(device.is_live(), is_live, "{registers:x?}");
            assert_eq!(device.is_acknowledged(), is_acknowledged, "{registers:x?}");
        }
    }

    #[test]
    fn a_device_that_was_noticed_is_so_again() {
        for (registers, after) in [
            ([MAGIC, 4, 0], 1),
            ([MAGIC, 4, 7], 7),
            ([MAGIC, 0, 0], 0),
            ([0, 4, 0], 0),
        ] {
            let device = VirtioMmio::new(Model(registers.map(Cell::new)));
            device.acknowledge();
            assert_eq!(device.registers.0[2].get(), after, "{registers:x?}");
        }
    }
}
