use arrayvec::ArrayVec;

use super::journal::Journal;
use super::register::{
    BAR0, BRIDGE_ROM, BUSES, COMMAND, HEADER, INTERRUPT, IO_WINDOW, Kept, MEMORY_WINDOW, MSI,
    MSI_X, PCI_EXPRESS, POWER_CONTROL, POWER_MANAGEMENT, POWER_STATE, PREFETCH_BASE_UPPER,
    PREFETCH_LIMIT_UPPER, PREFETCH_WINDOW, ROM,
};
use super::{ConfigSpace, Function, PciError, capability};
use crate::Clock;

/// Registers that are saved at most: 13 of the header, 15 of capabilities.
const MAX_SAVED: usize = 32;

/// Brings a function to D0, whatever state it is in, with its configuration
/// as it was: a function without "no soft reset" forgets it on the way.
pub(super) fn wake(
    config: &impl ConfigSpace,
    clock: &impl Clock,
    function: Function,
    journal: &mut Journal,
) -> Result<(), PciError> {
    let Some(power) = capability::find(config, function, POWER_MANAGEMENT)? else {
        return Ok(());
    };
    let control = within_capabilities(function, power + POWER_CONTROL)?;
    if config.read32(function, control) & POWER_STATE == 0 {
        return Ok(());
    }
    let saved = Saved::take(config, function)?;
    let outcome = journal.power_up(config, clock, function, control);
    saved.put_back(config);
    outcome
}

/// The register itself, unless it lies behind where capabilities are.
fn within_capabilities(function: Function, register: u16) -> Result<u16, PciError> {
    match register {
        ..0x100 => Ok(register),
        _ => Err(PciError::CapabilityList(function)),
    }
}

/// What a function forgets in a soft reset and an OS may not expect lost.
struct Saved {
    function: Function,
    registers: ArrayVec<(u16, Kept, u32), MAX_SAVED>,
}

impl Saved {
    fn take(config: &impl ConfigSpace, function: Function) -> Result<Self, PciError> {
        let mut saved = Saved {
            function,
            registers: ArrayVec::new(),
        };
        saved.take_header(config)?;
        saved.take_express(config)?;
        if let Some(msi) = capability::find(config, function, MSI)? {
            // Control, address, data, mask: as many as the control says.
            let flags = config.read32(function, msi) >> 16;
            let dwords = 3 + u16::from(flags & 1 << 7 != 0) + u16::from(flags & 1 << 8 != 0);
            for dword in (0..dwords).rev() {
                let register = within_capabilities(function, msi + 4 * dword)?;
                saved.push(config, register, Kept::ALL)?;
            }
        }
        if let Some(msi_x) = capability::find(config, function, MSI_X)? {
            saved.push(config, msi_x, Kept::ALL)?;
        }
        // Last, as it makes the others take effect.
        saved.push(config, COMMAND, Kept::LOWER_HALF)?;
        Ok(saved)
    }

    fn take_header(&mut self, config: &impl ConfigSpace) -> Result<(), PciError> {
        self.push(config, HEADER, Kept::LOWER_HALF)?;
        if is_bridge(config.read32(self.function, HEADER)) {
            self.push(config, BAR0, Kept::ALL)?;
            self.push(config, BAR0 + 4, Kept::ALL)?;
            self.push(config, BUSES, Kept::ALL)?;
            self.push(config, IO_WINDOW, Kept::LOWER_HALF)?;
            self.push(config, MEMORY_WINDOW, Kept::ALL)?;
            self.push(config, PREFETCH_WINDOW, Kept::ALL)?;
            self.push(config, PREFETCH_BASE_UPPER, Kept::ALL)?;
            self.push(config, PREFETCH_LIMIT_UPPER, Kept::ALL)?;
            // I/O base and limit, upper halves.
            self.push(config, ROM, Kept::ALL)?;
            self.push(config, BRIDGE_ROM, Kept::ALL)?;
            self.push(config, INTERRUPT, Kept::BRIDGE_CONTROL)
        } else {
            for bar in 0..6 {
                self.push(config, BAR0 + 4 * bar, Kept::ALL)?;
            }
            self.push(config, ROM, Kept::ALL)?;
            self.push(config, INTERRUPT, Kept::LOWER_HALF)
        }
    }

    /// Device, link, slot and root control.
    fn take_express(&mut self, config: &impl ConfigSpace) -> Result<(), PciError> {
        let Some(express) = capability::find(config, self.function, PCI_EXPRESS)? else {
            return Ok(());
        };
        // Version 1 may end after link control; version 2 has all of them.
        let version = config.read32(self.function, express) >> 16 & 0xf;
        let registers: &[u16] = match version {
            0 | 1 => &[0x08, 0x10],
            _ => &[0x08, 0x10, 0x18, 0x1c, 0x28, 0x30, 0x38],
        };
        for register in registers {
            if express + register < 0x100 {
                self.push(config, express + register, Kept::LOWER_HALF)?;
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        config: &impl ConfigSpace,
        register: u16,
        kept: Kept,
    ) -> Result<(), PciError> {
        let value = config.read32(self.function, register);
        self.registers
            .try_push((register, kept, value))
            .map_err(|_| PciError::CapabilityList(self.function))
    }

    /// Writes back what has changed, and only that.
    fn put_back(&self, config: &impl ConfigSpace) {
        for &(register, kept, value) in &self.registers {
            if (config.read32(self.function, register) ^ value) & kept.0 != 0 {
                config.write32(self.function, register, value & kept.0);
            }
        }
    }
}

/// Whether a header dword is that of a PCI-to-PCI bridge.
pub(super) fn is_bridge(header: u32) -> bool {
    header >> 16 & 0x7f == 1
}
