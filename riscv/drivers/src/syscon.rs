//! Power-off and reset by a register of the system controller (device tree
//! bindings `syscon-poweroff` and `syscon-reboot`).

use poorwill_devicetree as devicetree;

use crate::Registers;

/// A register write that switches the machine off, or resets it.
#[derive(Clone, Copy, Debug)]
pub struct Syscon<R> {
    register: R,
    value: u32,
    mask: u32,
}

impl<R: Registers<u32>> Syscon<R> {
    /// The write in `described`, to `register`.
    pub fn new(register: R, described: &devicetree::Syscon) -> Self {
        Syscon {
            register,
            value: described.value,
            mask: described.mask,
        }
    }

    /// Writes the register. Slow hardware may act after the return.
    pub fn write(&self) {
        let kept = if self.mask == u32::MAX {
            // Some registers cannot be read.
            0
        } else {
            self.register.read(0) & !self.mask
        };
        self.register.write(0, kept | (self.value & self.mask));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A system controller's register, and whether it was read.
    #[derive(Debug)]
    struct Model(Cell<u32>, Cell<bool>);

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            assert_eq!(offset, 0);
            self.1.set(true);
            self.0.get()
        }

        fn write(&self, offset: u64, value: u32) {
            assert_eq!(offset, 0);
            self.0.set(value);
        }
    }

    #[test]
    fn only_the_bits_that_count_change() {
        for (value, mask, before, after) in [
            (0x5555, u32::MAX, 0xffff_ffff, 0x5555),
            (0x3, 0xff, 0xabcd_ef99, 0xabcd_ef03),
            (0xff_ff, 0xf0, 0x0, 0xf0),
            (0, 0x10, 0x11, 0x01),
        ] {
            let model = Model(Cell::new(before), Cell::new(false));
            let described = devicetree::Syscon {
                address: 0,
                value,
                mask,
            };
            Syscon::new(&model, &described).write();
            assert_eq!(model.0.get(), after);
            assert_eq!(model.1.get(), mask != u32::MAX);
        }
    }
}
