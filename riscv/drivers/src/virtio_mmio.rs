//! A virtio device on the bus of memory (Virtual I/O Device specification 1.3, 4.2), as far
//! as machine mode looks at it: it reaches memory, and nothing but its driver stops it.

use crate::Registers;

/// Register offsets (4.2.2 and 4.2.4, alike in the legacy interface).
mod register {
    pub(super) const MAGIC: u64 = 0;
    pub(super) const DEVICE: u64 = 0x8;
    pub(super) const STATUS: u64 = 0x70;
}

/// "virt".
const MAGIC: u32 = u32::from_le_bytes(*b"virt");

/// The driver is ready to drive it (2.1).
const DRIVER_OK: u32 = 1 << 2;

/// A device, or a place for one.
#[derive(Clone, Copy, Debug)]
pub struct VirtioMmio<R> {
    registers: R,
}

impl<R: Registers<u32>> VirtioMmio<R> {
    /// What lies behind `registers`.
    pub fn new(registers: R) -> Self {
        VirtioMmio { registers }
    }

    /// Whether there is a device that its driver uses. Its queues are not asked: QEMU's
    /// devices write to queues that are not ready any more, as long as they are not reset.
    pub fn is_live(&self) -> bool {
        self.registers.read(register::MAGIC) == MAGIC
            && self.registers.read(register::DEVICE) != 0
            && is_driven(self.registers.read(register::STATUS))
    }
}

/// Whether a driver uses the device that has this status (2.1).
#[must_use]
pub const fn is_driven(status: u32) -> bool {
    status & DRIVER_OK != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Model([u32; 3]);

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            match offset {
                register::MAGIC => self.0[0],
                register::DEVICE => self.0[1],
                register::STATUS => self.0[2],
                other => panic!("nobody reads {other:#x}"),
            }
        }

        fn write(&self, _: u64, _: u32) {
            panic!("nobody writes");
        }
    }

    #[test]
    fn a_device_is_live_while_its_driver_is_ready() {
        for (registers, is_live) in [
            ([MAGIC, 4, 0xf], true),
            ([MAGIC, 4, 7], true),
            ([MAGIC, 4, 0xb], false),
            ([MAGIC, 4, 0], false),
            ([MAGIC, 0, 7], false),
            ([0, 4, 7], false),
        ] {
            assert_eq!(
                VirtioMmio::new(Model(registers)).is_live(),
                is_live,
                "{registers:x?}"
            );
        }
    }
}
