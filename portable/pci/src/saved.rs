//! Saves and restores the configuration that a function loses without power or in a soft
//! reset.

use arrayvec::ArrayVec;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::register::{
    BAR0, BRIDGE_ROM, BUSES, COMMAND, HEADER, ID, INTERRUPT, IO_WINDOW, Kept, MEMORY_WINDOW, MSI,
    MSI_X, MSI_X_ENABLE, MSI_X_MASK, PCI_EXPRESS, PREFETCH_BASE_UPPER, PREFETCH_LIMIT_UPPER,
    PREFETCH_WINDOW, ROM, is_bridge,
};
use super::{ConfigSpace, Function, PciError, capability};

/// The most saved registers: 14 of the header, 15 of capabilities.
const MAX_SAVED: usize = 32;

/// A saved register of configuration space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SavedRegister {
    register: u16,
    /// The kind of interrupts that the register controls: one of [`interrupts`].
    interrupts: u16,
    kept: u32,
    value: u32,
}

/// The kinds of interrupts that a register controls.
mod interrupts {
    pub(super) const NONE: u16 = 0;
    /// One message (MSI), which may be disabled for some time.
    pub(super) const ONE: u16 = 1;
    /// A table of messages (MSI-X), which may be masked for some time. It stays enabled,
    /// because devices check that.
    pub(super) const TABLE: u16 = 2;
}

/// The registers of a function in the order of the restore: the command register comes
/// last.
#[derive(Clone, Debug)]
pub struct SavedConfig {
    function: Function,
    registers: ArrayVec<SavedRegister, MAX_SAVED>,
}

impl SavedConfig {
    /// Reads the registers.
    ///
    /// # Errors
    ///
    /// [`PciError::CapabilityList`].
    pub fn take(config: &impl ConfigSpace, function: Function) -> Result<Self, PciError> {
        let mut saved = SavedConfig {
            function,
            registers: ArrayVec::new(),
        };
        saved.push(config, ID, Kept(0))?;
        saved.take_header(config)?;
        saved.take_express(config)?;
        if let Some(msi) = capability::find(config, function, MSI)? {
            // Control, address, data and mask. The control register's flags determine their number.
            let flags = config.read32(function, msi) >> 16;
            let dwords = 3 + u16::from(flags & 1 << 7 != 0) + u16::from(flags & 1 << 8 != 0);
            for dword in (1..dwords).rev() {
                let register = within_capabilities(function, msi + 4 * dword)?;
                saved.push(config, register, Kept::ALL)?;
            }
            saved.push_control(config, msi, interrupts::ONE)?;
        }
        if let Some(msi_x) = capability::find(config, function, MSI_X)? {
            saved.push_control(config, msi_x, interrupts::TABLE)?;
        }
        // The command register comes last, because it makes the others take effect.
        saved.push(config, COMMAND, Kept::LOWER_HALF)?;
        Ok(saved)
    }

    /// The registers, for a record.
    #[must_use]
    pub fn registers(&self) -> &[SavedRegister] {
        &self.registers
    }

    /// Writes back only the registers that have changed.
    pub(super) fn put_back(&self, config: &impl ConfigSpace) {
        put_back(config, self.function, &self.registers);
        put_back_interrupts(config, self.function, &self.registers);
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
            // Upper halves of the I/O base and limit, then a bridge's ROM.
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

    /// Saves device, link, slot and root control.
    fn take_express(&mut self, config: &impl ConfigSpace) -> Result<(), PciError> {
        let Some(express) = capability::find(config, self.function, PCI_EXPRESS)? else {
            return Ok(());
        };
        // A version 1 capability may end after link control. Version 2 has all registers.
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
        self.push_register(SavedRegister {
            register,
            interrupts: interrupts::NONE,
            kept: kept.0,
            value: config.read32(self.function, register),
        })
    }

    /// Saves a control register of messages.
    fn push_control(
        &mut self,
        config: &impl ConfigSpace,
        register: u16,
        interrupts: u16,
    ) -> Result<(), PciError> {
        self.push_register(SavedRegister {
            register,
            interrupts,
            kept: Kept::ALL.0,
            value: config.read32(self.function, register),
        })
    }

    fn push_register(&mut self, register: SavedRegister) -> Result<(), PciError> {
        let full = PciError::CapabilityList(self.function);
        self.registers.try_push(register).map_err(|_| full)
    }
}

/// Whether the function has the vendor and device of the saved registers.
pub fn is_same(config: &impl ConfigSpace, function: Function, registers: &[SavedRegister]) -> bool {
    let id = config.read32(function, ID);
    registers
        .first()
        .is_some_and(|saved| (saved.register, saved.value) == (ID, id))
}

/// Writes back changed registers, but does not enable message interrupts yet.
pub fn put_back(config: &impl ConfigSpace, function: Function, registers: &[SavedRegister]) {
    for saved in registers {
        let value = match saved.interrupts {
            interrupts::NONE => saved.value,
            interrupts::TABLE if saved.value & MSI_X_ENABLE != 0 => saved.value | MSI_X_MASK,
            _ => continue,
        };
        write_back(config, function, (saved, value));
    }
}

/// Enables message interrupts as saved.
pub fn put_back_interrupts(
    config: &impl ConfigSpace,
    function: Function,
    registers: &[SavedRegister],
) {
    let controls = registers
        .iter()
        .filter(|saved| saved.interrupts != interrupts::NONE);
    controls.for_each(|saved| write_back(config, function, (saved, saved.value)));
}

fn write_back(
    config: &impl ConfigSpace,
    function: Function,
    (saved, value): (&SavedRegister, u32),
) {
    if (config.read32(function, saved.register) ^ value) & saved.kept != 0 {
        config.write32(function, saved.register, value & saved.kept);
    }
}

/// Returns the register, unless it is past the range of capabilities.
pub(super) fn within_capabilities(function: Function, register: u16) -> Result<u16, PciError> {
    match register {
        ..0x100 => Ok(register),
        _ => Err(PciError::CapabilityList(function)),
    }
}
