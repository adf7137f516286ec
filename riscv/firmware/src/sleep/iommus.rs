//! The IOMMUs on PCI. One that is off, as after a power-on, blocks all devices. Each start opens it
//! before it uses a disk. A wake gives it the mode that each sleep requires: bare.

use poorwill_arch::Mmio;
use poorwill_arch::pci::{Ecam, config_space};
use poorwill_devicetree::PciHost;
use poorwill_drivers::iommu::{Iommu, IommuMode};
use poorwill_pci::{self as pci, Function, Location, Search};
use poorwill_sleep::AreaError;
use spin::Mutex;

use super::clock::clock;
use crate::platform::console::say;

/// Who uses the IOMMUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No OS runs yet.
    Start,
    /// No OS runs yet, and images on all disks end.
    Discard,
    /// The OS has asked for a sleep.
    Sleep,
}

/// An IOMMU that translated at the last search.
static TRANSLATES: Mutex<Option<Function>> = Mutex::new(None);

/// An IOMMU that the OS has on, and whose state an image lacks.
pub(super) fn translating() -> Option<Function> {
    *TRANSLATES.lock()
}

/// Begins a search of all host bridges.
pub(super) fn begin() {
    *TRANSLATES.lock() = None;
}

/// Opens the IOMMUs below a host bridge, or finds out whether the OS has them open.
///
/// # Errors
///
/// [`AreaError`]: disks below the bridge reach no memory.
pub(super) fn look(phase: Phase, host: &PciHost, search: &Search) -> Result<(), AreaError> {
    for location in &search.iommus {
        // SAFETY: the device tree describes the bridge, and the OS's harts are stopped or not yet
        // started.
        let config = unsafe { config_space(host) };
        look_at(phase, host, &config, location)?;
    }
    search.more_iommus.map_or(Ok(()), |error| Err(error.into()))
}

fn look_at(
    phase: Phase,
    host: &PciHost,
    config: &Ecam,
    location: &Location,
) -> Result<(), AreaError> {
    let handle = pci::acquire(config, &clock(), &host.bridge, location)?;
    let function = handle.function();
    // SAFETY: acquiring made the function answer there until the handle's release.
    let iommu = Iommu::new(unsafe { Mmio::new(handle.cpu_address()) });
    let outcome = match phase {
        Phase::Start | Phase::Discard => iommu.open(),
        Phase::Sleep => Ok(()),
    };
    let mode = iommu.mode();
    handle.release(config, &clock());
    if let Err(error) = outcome {
        say!("PCI function {function}: {error}");
        return Err(AreaError::Iommu(function));
    }
    match mode {
        IommuMode::Bare => Ok(()),
        IommuMode::Off => Err(AreaError::Iommu(function)),
        IommuMode::Translating => {
            TRANSLATES.lock().get_or_insert(function);
            Ok(())
        }
    }
}
