//! One device that may hold sleep areas, while it runs: an NVMe controller, or
//! memory that keeps its bytes.

use arrayvec::ArrayVec;
use poorwill_medium::Medium;
use poorwill_medium::mapped::{self, MappedMedium, MappedMemory};
use poorwill_medium::nvme::{
    Controller, MAX_NAMESPACES, MemoryRegion, NvmeError, QueueMemory, Stop, region_bar,
};
use poorwill_medium::pci::{self, Claim, Kind, Location};
use poorwill_memory::{Page, PhysRange};

use super::Memory;
use super::disk::DiskError;
use crate::platform::console::say;
use crate::platform::pci::{DeviceMemory, Ecam, NvmeRegisters};
use crate::platform::platform;
use crate::platform::time::Time;

/// A medium of a device, whatever the device is.
pub(super) type Disk<'m> = &'m mut dyn Medium;

/// Where a device is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Which of the platform's host bridges it is below.
    pub(super) host: usize,
    pub(super) location: Location,
}

/// Which medium of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The namespace of this number.
    Namespace(u32),
    /// The memory that the CPU loads and stores.
    Memory,
}

/// Media of a device at most: a controller's namespaces and its memory region.
const MAX_PARTS: usize = MAX_NAMESPACES + 1;

/// A device that runs.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and no heap"
)]
pub(super) enum Device<'a, 'r> {
    /// An NVMe controller, and its memory region if there is one.
    Nvme(
        Controller<'a, NvmeRegisters<'r>, &'static Time>,
        Option<MappedMedium<MemoryRegion<NvmeRegisters<'r>, DeviceMemory<'r>>>>,
    ),
    /// Memory.
    Mapped(MappedMedium<DeviceMemory<'r>>),
}

/// What is left of [`Memory`] beside the queues.
pub(super) struct Rest<'m> {
    pub(super) scratch: &'m mut Page,
    pub(super) record: &'m mut Page,
    pub(super) workspace: &'m mut [Page],
}

/// Starts the device at a place, runs `job` on it, and leaves it as it was
/// found; a controller as `stop` says.
///
/// # Errors
///
/// [`DiskError`]: the job's, or that the device does not start.
pub(super) fn on_device<R>(
    place: &Place,
    memory: &mut Memory,
    stop: impl Fn(&Result<R, DiskError>) -> Stop,
    job: impl FnOnce(&mut Device<'_, '_>, &mut Rest<'_>) -> Result<R, DiskError>,
) -> Result<R, DiskError> {
    let time = &platform().time;
    let described = &platform().pci[place.host];
    // SAFETY: the device tree describes the bridge, and the OS's harts are
    // stopped or not yet started.
    let config = unsafe { Ecam::new(described) };
    let mut claim = pci::claim(&config, time, &described.bridge, &place.location)?;
    let Memory {
        queues,
        scratch,
        record,
        workspace,
    } = memory;
    let mut rest = Rest {
        scratch,
        record,
        workspace,
    };
    let started = match place.location.kind() {
        Kind::Nvme => {
            let region = region_range(place, &mut claim, &config);
            start_controller(&claim, &config, region, queues)
        }
        Kind::SharedMemory => start_memory(&claim, &config),
    };
    let result = started.and_then(|mut device| {
        let result = job(&mut device, &mut rest);
        device.stop(stop(&result));
        result
    });
    claim.release(&config, time);
    result
}

/// Where a controller's memory region is to be had. One that cannot be used is
/// named and passed over: the controller's namespaces may well be usable.
fn region_range(place: &Place, claim: &mut Claim, config: &Ecam) -> Option<PhysRange> {
    let bar = match region_bar(&NvmeRegisters::new(claim, config)) {
        Ok(bar) => bar?,
        Err(error) => {
            say!("NVMe: {error}");
            return None;
        }
    };
    let host = &platform().pci[place.host].bridge;
    claim
        .add_memory(config, &platform().time, host, &place.location, bar)
        .inspect_err(|error| say!("NVMe memory region: {error}"))
        .ok()
}

fn start_controller<'a, 'r>(
    claim: &'r Claim,
    config: &'r Ecam,
    region: Option<PhysRange>,
    queues: &'a mut QueueMemory,
) -> Result<Device<'a, 'r>, DiskError> {
    let registers = NvmeRegisters::new(claim, config);
    let controller = Controller::start(registers, &platform().time, queues)?;
    let start = |range| -> Result<_, DiskError> {
        let care = DeviceMemory::new(range, (claim, config), platform().cache_block);
        let region = MemoryRegion::enable(registers, care, &platform().time)?;
        // SAFETY: as in `start_memory`.
        let memory = unsafe { MappedMemory::new(range) }?;
        Ok(MappedMedium::new(memory, region)?)
    };
    let region = region.and_then(|range| {
        start(range)
            .inspect_err(|error| say!("NVMe memory region: {error}"))
            .ok()
    });
    Ok(Device::Nvme(controller, region))
}

fn start_memory<'r>(claim: &'r Claim, config: &'r Ecam) -> Result<Device<'static, 'r>, DiskError> {
    let range = PhysRange::new(claim.cpu_address(), claim.length());
    let care = DeviceMemory::new(range, (claim, config), platform().cache_block);
    // SAFETY: the claim made the function answer there, lasts as long as the
    // medium, and no other Rust object lies in a device.
    let memory = unsafe { MappedMemory::new(range) }?;
    Ok(Device::Mapped(MappedMedium::new(memory, care)?))
}

impl Device<'_, '_> {
    /// Its media, each with the bytes of a block.
    pub(super) fn parts(&self) -> ArrayVec<(Part, u32), MAX_PARTS> {
        const MEMORY: (Part, u32) = (Part::Memory, mapped::BLOCK_BYTES);
        match self {
            Device::Nvme(controller, region) => {
                if controller.has_more_namespaces() {
                    say!("NVMe: only the first namespaces are looked at");
                }
                let namespaces = controller.namespaces().iter();
                namespaces
                    .map(|namespace| (Part::Namespace(namespace.id), namespace.block_bytes))
                    .chain(region.as_ref().map(|_| MEMORY))
                    .collect()
            }
            Device::Mapped(_) => ArrayVec::from_iter([MEMORY]),
        }
    }

    /// Runs `job` on one of its media; `None` when that is in a format which is
    /// not ours.
    pub(super) fn on_part<R>(
        &mut self,
        part: Part,
        job: impl FnOnce(Disk<'_>) -> Result<R, DiskError>,
    ) -> Result<Option<R>, DiskError> {
        match (self, part) {
            (Device::Nvme(controller, _), Part::Namespace(id)) => match controller.medium(id) {
                Err(NvmeError::Format(_)) => Ok(None),
                other => job(&mut other?).map(Some),
            },
            (Device::Nvme(_, Some(region)), Part::Memory) => job(region).map(Some),
            (Device::Mapped(medium), Part::Memory) => job(medium).map(Some),
            (Device::Nvme(_, None), Part::Memory) | (Device::Mapped(_), Part::Namespace(_)) => {
                Ok(None)
            }
        }
    }

    /// Stops a controller. One that does not stop has lost its access to memory;
    /// only a reset makes it usable again, which an OS's own driver may try.
    fn stop(self, how: Stop) {
        if let Device::Nvme(controller, _) = self
            && let Err(error) = controller.stop(how)
        {
            say!("NVMe: {error}");
        }
    }
}
