//! PCI configuration space in memory (PCI Express base specification, 7.2.2, Enhanced Configuration
//! Access Mechanism).

use poorwill_devicetree::PciHost;
use poorwill_pci::{ConfigSpace, Function};

use crate::Registers;

/// Lowest bits of the parts of an address (7.2.2, table 7-1).
mod shift {
    pub(super) const BUS: u32 = 20;
    pub(super) const DEVICE: u32 = 15;
    pub(super) const FUNCTION: u32 = 12;
}

/// The bits of a register number that select its dword.
const DWORD: u16 = 0xffc;

const DWORD_BYTES: u64 = 4;

/// The configuration space of a host bridge.
#[derive(Clone, Copy, Debug)]
pub struct Ecam<R> {
    registers: R,
    first_bus: u8,
    /// Bytes of the mapped part.
    length: u64,
}

impl<R: Registers<u32>> Ecam<R> {
    /// The configuration space of `host`.
    pub fn new(registers: R, host: &PciHost) -> Self {
        Ecam {
            registers,
            first_bus: host.bridge.first_bus,
            length: host.ecam.length(),
        }
    }

    /// Offset of a register; `None` beyond the mapped part.
    fn offset(&self, function: Function, register: u16) -> Option<u64> {
        let bus = function.bus.checked_sub(self.first_bus)?;
        let offset = u64::from(bus) << shift::BUS
            | u64::from(function.device) << shift::DEVICE
            | u64::from(function.function) << shift::FUNCTION
            | u64::from(register & DWORD);
        (offset + DWORD_BYTES <= self.length).then_some(offset)
    }
}

impl<R: Registers<u32>> ConfigSpace for Ecam<R> {
    fn read32(&self, function: Function, register: u16) -> u32 {
        // A bus reads as all ones where no device answers.
        self.offset(function, register)
            .map_or(u32::MAX, |offset| self.registers.read(offset))
    }

    fn write32(&self, function: Function, register: u16, value: u32) {
        if let Some(offset) = self.offset(function, register) {
            self.registers.write(offset, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use poorwill_memory::PhysRange;
    use poorwill_pci::HostBridge;

    use super::*;

    /// Dwords that keep written values; unwritten ones have their own address as value.
    #[derive(Debug, Default)]
    struct Model(RefCell<BTreeMap<u64, u32>>);

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            let address = u32::try_from(offset).unwrap();
            *self.0.borrow().get(&offset).unwrap_or(&address)
        }

        fn write(&self, offset: u64, value: u32) {
            self.0.borrow_mut().insert(offset, value);
        }
    }

    fn host(first_bus: u8, length: u64) -> PciHost {
        let start = 0x3000_0000;
        PciHost {
            ecam: PhysRange::new(start, length),
            bridge: HostBridge {
                first_bus,
                last_bus: u8::MAX,
                windows: arrayvec::ArrayVec::new(),
            },
        }
    }

    fn function(bus: u8, device: u8, function: u8) -> Function {
        Function {
            bus,
            device,
            function,
        }
    }

    #[test]
    fn each_part_of_an_address_has_its_bits() {
        let model = Model::default();
        let ecam = Ecam::new(&model, &host(0, 256 << 20));
        assert_eq!(ecam.read32(function(0, 0, 0), 0), 0);
        assert_eq!(ecam.read32(function(1, 0, 0), 0), 1 << 20);
        assert_eq!(ecam.read32(function(0, 1, 0), 0), 1 << 15);
        assert_eq!(ecam.read32(function(0, 0, 1), 0), 1 << 12);
        assert_eq!(ecam.read32(function(0, 0, 0), 0x10), 0x10);
        let last = ecam.read32(function(255, 31, 7), 0xffc);
        assert_eq!(last, (256 << 20) - 4);
        // The dword of the register is read, not another function's.
        assert_eq!(ecam.read32(function(0, 0, 0), 0x1013), 0x10);
    }

    #[test]
    fn buses_count_from_the_first_one_below_the_bridge() {
        let model = Model::default();
        let ecam = Ecam::new(&model, &host(4, 2 << 20));
        assert_eq!(ecam.read32(function(4, 0, 0), 8), 8);
        assert_eq!(ecam.read32(function(5, 0, 0), 8), 1 << 20 | 8);
        assert_eq!(ecam.read32(function(3, 0, 0), 8), u32::MAX);
    }

    #[test]
    fn beyond_the_mapped_part_nothing_is_touched() {
        let model = Model::default();
        // The last dword is not whole.
        let ecam = Ecam::new(&model, &host(0, (1 << 20) - 1));
        let (within, beyond) = (function(0, 31, 7), function(1, 0, 0));
        assert_eq!(ecam.read32(within, 0xff8), (1 << 20) - 8);
        assert_eq!(ecam.read32(within, 0xffc), u32::MAX);
        ecam.write32(within, 0xffc, 1);
        ecam.write32(beyond, 0, 1);
        assert!(model.0.borrow().is_empty());
        ecam.write32(within, 0xff8, 7);
        assert_eq!(*model.0.borrow(), [((1 << 20) - 8, 7)].into());
        assert_eq!(ecam.read32(within, 0xff8), 7);
    }
}
