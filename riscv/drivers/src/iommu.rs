//! RISC-V IOMMU (RISC-V IOMMU Architecture Specification 1.0). Machine mode uses only its mode:
//! off, bare, or translating.

use crate::Registers;

/// The device directory's register (section 6.5, `ddtp`).
const DDTP: u64 = 0x10;

/// Mode, in the lowest bits.
mod mode {
    pub(super) const BITS: u64 = 0xf;
    /// Devices cannot access memory.
    pub(super) const OFF: u64 = 0;
    /// Devices use physical addresses.
    pub(super) const BARE: u64 = 1;
}

/// An IOMMU.
#[derive(Clone, Copy, Debug)]
pub struct Iommu<R> {
    registers: R,
}

impl<R: Registers<u64>> Iommu<R> {
    /// The IOMMU with these registers.
    pub fn new(registers: R) -> Self {
        Iommu { registers }
    }

    /// Sets an IOMMU that is off, as after a power-on, to bare. One that translates stays
    /// unchanged.
    pub fn start(&self) {
        if self.registers.read(DDTP) & mode::BITS == mode::OFF {
            self.registers.write(DDTP, mode::BARE);
        }
    }

    /// Returns whether devices' accesses are translated or blocked.
    pub fn is_on(&self) -> bool {
        self.registers.read(DDTP) & mode::BITS != mode::BARE
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Debug)]
    struct Model(Cell<u64>);

    impl Registers<u64> for Model {
        fn read(&self, offset: u64) -> u64 {
            assert_eq!(offset, DDTP);
            self.0.get()
        }

        fn write(&self, offset: u64, value: u64) {
            assert_eq!(offset, DDTP);
            self.0.set(value);
        }
    }

    #[test]
    fn one_that_is_off_is_opened_and_one_that_translates_is_told() {
        // Off, bare, one level, three levels with a directory.
        for (before, after, is_on) in [
            (0, 1, false),
            (1, 1, false),
            (2, 2, true),
            (0x1234_5404, 0x1234_5404, true),
        ] {
            let model = Model(Cell::new(before));
            let iommu = Iommu::new(&model);
            iommu.start();
            assert_eq!((model.0.get(), iommu.is_on()), (after, is_on));
        }
    }
}
