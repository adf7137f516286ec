//! Flash, as the vault's driver reaches it.

use poorwill_devicetree::Machine;
use poorwill_medium::cfi::Registers;
use poorwill_memory::PhysRange;

use super::mmio::Mmio;

/// The registers, that is the memory, of a bank of flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashRegisters {
    bank: PhysRange,
    width: u8,
    registers: Mmio,
}

impl FlashRegisters {
    /// The last bank of the machine's flash: the first ones hold code, where
    /// there is any.
    ///
    /// # Safety
    ///
    /// `machine` describes this machine.
    pub(super) unsafe fn last_bank(machine: &Machine) -> Option<Self> {
        let flash = machine.flash.as_ref()?;
        let bank = *flash.banks.last()?;
        Some(FlashRegisters {
            bank,
            width: flash.width as u8,
            // SAFETY: passed on to the caller.
            registers: unsafe { Mmio::new(bank.start) },
        })
    }

    /// Where it lies.
    pub(super) fn bank(&self) -> PhysRange {
        self.bank
    }
}

impl Registers for FlashRegisters {
    fn length(&self) -> u64 {
        self.bank.length()
    }

    fn width(&self) -> u8 {
        self.width
    }

    fn read(&self, offset: u64) -> u32 {
        let offset = offset as usize;
        match self.width {
            1 => self.registers.read8(offset).into(),
            2 => self.registers.read16(offset).into(),
            _ => self.registers.read32(offset),
        }
    }

    fn write(&self, offset: u64, value: u32) {
        let offset = offset as usize;
        match self.width {
            1 => self.registers.write8(offset, value as u8),
            2 => self.registers.write16(offset, value as u16),
            _ => self.registers.write32(offset, value),
        }
    }
}
