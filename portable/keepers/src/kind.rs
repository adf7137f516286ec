use poorwill_image::{StateSection, StateWriter};
use poorwill_pci::{self as pci, ConfigSpace, Listed, PciError};

use crate::device::Device;
use crate::{KeeperError, Machine, ahci, e1000e, nvme};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Nvme,
    /// A SATA controller (AHCI).
    Ahci,
    /// Intel's 82574 network controller.
    E1000e,
}

/// Class, subclass and interface.
const NVME: u32 = 0x01_08_02;
const AHCI: u32 = 0x01_06_01;

/// The class and subclass of host bridges.
const HOST_BRIDGE: u32 = 0x06_00;

/// The class and subclass of IOMMUs.
const IOMMU: u32 = 0x08_06;

/// The device and vendor IDs of the 82574L.
const I82574L: u32 = 0x10d3_8086;

impl Kind {
    /// The kind of a function that is in use, because it has access to memory. `None`: it
    /// is not in use, or it is a bridge, whose configuration is its only state.
    ///
    /// # Errors
    ///
    /// [`KeeperError::NoKeeper`]; [`KeeperError::Pci`] if it has virtual functions.
    pub(crate) fn of_used(
        config: &impl ConfigSpace,
        listed: &Listed,
        drivers: Drivers,
    ) -> Result<Option<Self>, KeeperError> {
        let function = listed.function;
        if pci::has_virtual_functions(config, function)? {
            return Err(PciError::VirtualFunctions(function).into());
        }
        if listed.is_bridge || listed.class >> 8 == HOST_BRIDGE {
            return Ok(None);
        }
        // All other devices rely on its mode, which its configuration does not show.
        if listed.class >> 8 == IOMMU {
            return Err(KeeperError::NoKeeper(function));
        }
        let kind = match (listed.class, listed.id) {
            (NVME, _) => Some(Kind::Nvme),
            (AHCI, _) => Some(Kind::Ahci),
            (_, I82574L) => Some(Kind::E1000e),
            _ => None,
        };
        match kind {
            // A driver grants access to memory before it relies on the state that it set
            // up.
            Some(kind) => Ok(Some(kind).filter(|_| listed.is_master)),
            None if listed.is_master => Err(KeeperError::NoKeeper(function)),
            None if drivers == Drivers::Suspended => Ok(None),
            None if pci::holds_state(config, function)? => Err(KeeperError::NoKeeper(function)),
            None => Ok(None),
        }
    }
}

/// What the OS's drivers expect of their devices after the power-on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drivers {
    /// The device's state is unchanged.
    Running,
    /// The OS has suspended the drivers, so they set up their devices again.
    Suspended,
}

pub(crate) enum Stopping<M: Machine> {
    Nvme(nvme::Stopping<M>),
    Ahci(ahci::Stopping<M>),
    E1000e(e1000e::Stopping<M>),
}

impl Kind {
    pub(crate) fn tagged(tag: &[u8; 3]) -> Option<Self> {
        match tag {
            nvme::TAG => Some(Kind::Nvme),
            ahci::TAG => Some(Kind::Ahci),
            e1000e::TAG => Some(Kind::E1000e),
            _ => None,
        }
    }

    /// Makes a device finish its work, by `until` at the latest, with as little waiting
    /// as possible.
    pub(crate) fn begin<M: Machine>(
        self,
        device: &Device<'_, M>,
        until: u64,
    ) -> Result<Stopping<M>, KeeperError> {
        Ok(match self {
            Kind::Nvme => Stopping::Nvme(nvme::begin(device, until)?),
            Kind::Ahci => Stopping::Ahci(ahci::begin(device)?),
            Kind::E1000e => Stopping::E1000e(e1000e::begin(device)?),
        })
    }

    pub(crate) fn check(self, section: &StateSection<'_>) -> Result<(), KeeperError> {
        match self {
            Kind::Nvme => nvme::check(section),
            Kind::Ahci => ahci::check(section),
            Kind::E1000e => e1000e::check(section),
        }
    }

    pub(crate) fn put_back<M: Machine>(
        self,
        device: &Device<'_, M>,
        section: &StateSection<'_>,
    ) -> Result<(), KeeperError> {
        match self {
            Kind::Nvme => nvme::put_back(device, section),
            Kind::Ahci => ahci::put_back(device, section),
            Kind::E1000e => e1000e::put_back(device, section),
        }
    }

    /// Enables the device's interrupts, and notifies its driver.
    pub(crate) fn announce<M: Machine>(
        self,
        device: &Device<'_, M>,
        section: &StateSection<'_>,
    ) -> Result<(), KeeperError> {
        match self {
            Kind::Nvme => nvme::announce(device, section),
            Kind::Ahci => ahci::announce(device, section),
            Kind::E1000e => e1000e::announce(device, section),
        }
    }
}

impl<M: Machine> Stopping<M> {
    /// Waits until the device is quiet, and saves its state.
    pub(crate) fn finish(
        self,
        device: &Device<'_, M>,
        until: u64,
        into: &mut StateWriter<'_>,
    ) -> Result<(), KeeperError> {
        match self {
            Stopping::Nvme(stopping) => stopping.finish(device, until, into),
            Stopping::Ahci(stopping) => stopping.finish(device, until, into),
            Stopping::E1000e(stopping) => stopping.finish(device, until, into),
        }
    }
}
