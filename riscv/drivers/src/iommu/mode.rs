//! The mode of an IOMMU: whether devices reach memory (5.5).

use super::register::{CAPABILITIES, DDTP, capabilities, ddtp};
use super::{IommuError, MAX_POLLS};
use crate::Registers;

/// The treatment of devices' accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IommuMode {
    /// No access reaches memory.
    Off,
    /// Addresses are physical.
    Bare,
    /// A directory decides.
    Translating,
}

/// An IOMMU of which only the mode is used.
#[derive(Clone, Copy, Debug)]
pub struct Iommu<R> {
    registers: R,
}

impl<R: Registers<u64>> Iommu<R> {
    /// The IOMMU with these registers.
    pub fn new(registers: R) -> Self {
        Iommu { registers }
    }

    /// Opens an IOMMU that is off, as after a power-on: sets it to bare.
    ///
    /// # Errors
    ///
    /// [`IommuError::Version`]. [`IommuError::Translates`]: its directory is an earlier stage's,
    /// and stays. [`IommuError::Busy`], [`IommuError::Closed`]: it does not answer.
    pub fn open(&self) -> Result<(), IommuError> {
        let [version, ..] = self.registers.read(CAPABILITIES).to_le_bytes();
        if version >> capabilities::MAJOR_SHIFT != 1 {
            return Err(IommuError::Version(version));
        }
        let found = settled(&self.registers)?;
        match mode_of(found) {
            IommuMode::Bare => return Ok(()),
            IommuMode::Translating => return Err(IommuError::Translates(found)),
            IommuMode::Off => self.registers.write(DDTP, ddtp::BARE),
        }
        let found = settled(&self.registers)?;
        match mode_of(found) {
            IommuMode::Bare => Ok(()),
            _ => Err(IommuError::Closed(found)),
        }
    }

    /// The mode.
    pub fn mode(&self) -> IommuMode {
        mode_of(self.registers.read(DDTP))
    }

    /// Returns whether devices' accesses are translated or blocked.
    pub fn is_on(&self) -> bool {
        self.mode() != IommuMode::Bare
    }
}

fn mode_of(value: u64) -> IommuMode {
    match value & ddtp::MODE {
        ddtp::OFF => IommuMode::Off,
        ddtp::BARE => IommuMode::Bare,
        _ => IommuMode::Translating,
    }
}

/// Lets no access of any device pass. The root's page number stays, as 5.5 demands.
pub(super) fn close_all(registers: &impl Registers<u64>) -> Result<(), IommuError> {
    let before = settled(registers)?;
    if before & ddtp::MODE != ddtp::OFF {
        registers.write(DDTP, before & !ddtp::MODE);
        settled(registers)?;
    }
    Ok(())
}

/// Waits until the last write of DDTP has taken effect; returns its value.
pub(super) fn settled(registers: &impl Registers<u64>) -> Result<u64, IommuError> {
    for _ in 0..MAX_POLLS {
        let value = registers.read(DDTP);
        if value & ddtp::BUSY == 0 {
            return Ok(value);
        }
        core::hint::spin_loop();
    }
    Err(IommuError::Busy {
        register: DDTP,
        polls: MAX_POLLS,
    })
}
