use super::IommuError;
use super::register::{CAPABILITIES, FCTL, capabilities, fctl};
use crate::Registers;

/// The features of an IOMMU that the driver uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Contexts have 64 bytes, otherwise 32 (MSI_FLAT).
    pub has_wide_contexts: bool,
    /// First-stage tables of four levels.
    pub has_sv48: bool,
    /// PCI Express address translation services, and with them a page-request queue.
    pub has_ats: bool,
    /// Bits of a physical address.
    pub address_bits: u32,
}

impl Capabilities {
    /// Reads the registers (5.3 and 5.4).
    ///
    /// # Errors
    ///
    /// [`IommuError::Version`], [`IommuError::NoSv39`], [`IommuError::Features`]: the driver cannot
    /// use this IOMMU.
    pub fn read<R>(registers: &R) -> Result<Self, IommuError>
    where
        R: Registers<u32> + Registers<u64>,
    {
        let found: u64 = registers.read(CAPABILITIES);
        let version = found & capabilities::VERSION;
        if version >> capabilities::MAJOR_SHIFT != 1 {
            return Err(IommuError::Version(found.to_le_bytes()[0]));
        }
        if found & capabilities::SV39 == 0 {
            return Err(IommuError::NoSv39(found));
        }
        let features: u32 = registers.read(FCTL);
        if features & (fctl::BE | fctl::GXL) != 0 {
            return Err(IommuError::Features(features));
        }
        let [_, _, _, _, bits, ..] = found.to_le_bytes();
        Ok(Capabilities {
            has_wide_contexts: found & capabilities::MSI_FLAT != 0,
            has_sv48: found & capabilities::SV48 != 0,
            has_ats: found & capabilities::ATS != 0,
            address_bits: u32::from(bits & capabilities::PAS),
        })
    }
}
