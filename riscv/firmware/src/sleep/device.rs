//! A running device that may hold sleep areas: an NVMe controller, or memory that keeps its
//! contents.

use core::fmt;

use arrayvec::ArrayVec;
use poorwill_arch::guarded;
use poorwill_arch::pci::{DeviceMemory, Ecam, NvmeRegisters, config_space};
use poorwill_devicetree::MAX_PCI_HOSTS;
use poorwill_medium::Medium;
use poorwill_medium::mapped::{self, MappedMedium, MappedMemory};
use poorwill_medium::nvme::{
    Controller, MemoryRegion, NvmeError, NvmeMedium, QueueMemory, SharedNamespace, Stop, region_bar,
};
use poorwill_memory::PhysRange;
use poorwill_pci::{self as pci, DeviceHandle, Kind, Location, Silenced, Step};
use poorwill_sleep::{
    AreaError, Device, FunctionInUse, LeftInUse, LentMedium, MAX_DEVICES, MAX_MEDIA, MediumId,
};

use super::clock::{DeviceClock, clock};
use super::iommus::{self, Phase};
use crate::cut::disks;
use crate::domain::dma;
use crate::hart::memory::queues;
use crate::platform::console::say;
use crate::platform::platform;

/// The location of a device.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Index of its host bridge in the platform's list.
    host: usize,
    location: Location,
    reach: Reach,
}

/// How the firmware gets a device.
#[derive(Clone, Copy, Debug)]
enum Reach {
    /// It is acquired, and released.
    Acquired,
    /// The start has placed it for machine mode, with this range of its BAR.
    Placed(PhysRange),
    /// Its DMA reaches no memory.
    Blocked(AreaError),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.kind().fmt(f)
    }
}

/// The devices that may hold sleep areas: machine mode's own ones, if the partition names any. The
/// console reports why a device cannot be found.
pub(super) fn find(phase: Phase) -> ArrayVec<Place, MAX_DEVICES> {
    match platform().keeps_sets() && phase != Phase::Discard {
        true => find_own(),
        false => find_all(phase),
    }
}

/// Machine mode's own devices. A function of another kind holds no area.
fn find_own() -> ArrayVec<Place, MAX_DEVICES> {
    let mut places = ArrayVec::new();
    let Some(described) = platform().pci.first() else {
        return places;
    };
    // SAFETY: as in `find_all`.
    let config = unsafe { config_space(described) };
    for (function, mut ranges) in dma::own() {
        let step = Step {
            device: function.device,
            function: function.function,
        };
        let kind = pci::kind_of(&config, function).filter(|kind| *kind != Kind::Iommu);
        let range = kind.and_then(|kind| ranges.find(|range| range.is_bar(kind.bar())));
        let location = kind.and_then(|kind| Location::new(kind, &[], step));
        match location.zip(range) {
            Some((location, range)) => places.push(Place {
                host: 0,
                location,
                reach: Reach::Placed(range.range),
            }),
            None => say!("PCI function {function} is no NVMe controller, and no memory"),
        }
    }
    places
}

/// All devices that may hold sleep areas, with the IOMMUs opened before them.
fn find_all(phase: Phase) -> ArrayVec<Place, MAX_DEVICES> {
    let mut places = ArrayVec::new();
    iommus::begin();
    for (host, described) in platform().pci.iter().enumerate() {
        // SAFETY: the device tree describes the bridge, and the OS's harts are
        // stopped or not yet started.
        let config = unsafe { config_space(described) };
        let search = pci::find(&config, &clock(), &described.bridge);
        if let Some(complaint) = search.complaint {
            say!("PCI: {complaint}");
        }
        let blocked = iommus::look(phase, described, &search).err();
        let reach = blocked.map_or(Reach::Acquired, Reach::Blocked);
        for location in search.devices {
            let place = Place {
                host,
                reach: match location.kind() {
                    Kind::Nvme => reach,
                    _ => Reach::Acquired,
                },
                location,
            };
            if places.try_push(place).is_err() {
                say!("only the first {MAX_DEVICES} devices are looked at");
                return places;
            }
        }
    }
    places
}

/// The functions that the suspended OS has left in use.
pub(super) fn left_in_use() -> LeftInUse {
    let mut left = LeftInUse::default();
    if platform().keeps_sets() {
        // Each domain sets its functions up again: the start places them, and gives them contexts.
        return left;
    }
    for (host, described) in platform().pci.iter().enumerate() {
        // SAFETY: as in `find_all`.
        let config = unsafe { config_space(described) };
        // SAFETY: the address is in a window of the bridge. A byte's read does not change a device.
        let read8 = |address| unsafe { guarded::load(address, 1) }.map(|byte| byte as u8);
        let add = |found| left.add(FunctionInUse { host, found });
        if let Err(error) = pci::in_use(&config, &described.bridge, read8, add) {
            say!("PCI: {error}");
        }
    }
    left
}

/// A running device.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one at a time, and no heap"
)]
pub(super) enum Running<'r> {
    /// An NVMe controller, and its memory region if there is one.
    Nvme(
        Controller<'r, NvmeRegisters<'r>, DeviceClock>,
        Option<MappedMedium<MemoryRegion<NvmeRegisters<'r>, DeviceMemory<'r>>>>,
    ),
    /// Memory.
    Mapped(MappedMedium<DeviceMemory<'r>>),
}

/// Starts the device at a place, runs `job` on it, and restores its previous state. `stop`: how a
/// controller is stopped. A wake leaves the other functions as they are: the start has turned them
/// off, or given them to domains that may run by now.
///
/// # Errors
///
/// The job's error, or that of a device that does not start.
pub(super) fn on_device<R>(
    place: &Place,
    phase: Phase,
    stop: impl Fn(&Result<R, AreaError>) -> Stop,
    job: impl FnOnce(&mut Running<'_>) -> Result<R, AreaError>,
) -> Result<R, AreaError> {
    let described = &platform().pci[place.host];
    // SAFETY: the device tree describes the bridge, and the OS's harts are
    // stopped or not yet started.
    let config = unsafe { config_space(described) };
    let (bridge, location) = (&described.bridge, &place.location);
    let mut handle = match place.reach {
        Reach::Acquired => pci::acquire(&config, &clock(), bridge, location)?,
        Reach::Placed(range) => pci::placed(&config, bridge, location, range)?,
        Reach::Blocked(error) => return Err(error),
    };
    let is_placed = matches!(place.reach, Reach::Placed(_));
    let mut silenced = ArrayVec::new();
    let mut silence = || match is_placed && phase == Phase::Start {
        true => Ok(()),
        false => silence_others(place, &mut silenced),
    };
    let result = silence().and_then(|()| {
        let queues = &mut *queues();
        let mut device = start(place, &mut handle, &config, queues)?;
        let result = match is_placed {
            true => dma::admit(|| job(&mut device)),
            false => job(&mut device),
        };
        device.stop(stop(&result));
        result
    });
    if is_placed && handle.is_cut() {
        dma::cut_own(&config, handle.function());
    }
    for (config, functions) in silenced {
        functions.release(&config);
    }
    handle.release(&config, &clock());
    result
}

/// Takes bus mastering from all functions, except the one at the place. A function that an OS or a
/// boot loader has left running could change a page between its hash and its save. Virtual
/// functions (SR-IOV) cannot be silenced here, so they are refused.
fn silence_others(
    place: &Place,
    silenced: &mut ArrayVec<(Ecam, Silenced), MAX_PCI_HOSTS>,
) -> Result<(), AreaError> {
    for (host, described) in platform().pci.iter().enumerate() {
        // SAFETY: as in `on_device`.
        let config = unsafe { config_space(described) };
        let own = (host == place.host).then_some(&place.location);
        pci::refuse_virtual_functions(&config, &described.bridge)?;
        let functions = pci::silence(&config, &described.bridge, own)?;
        silenced.push((config, functions));
    }
    Ok(())
}

fn start<'r>(
    place: &Place,
    handle: &'r mut DeviceHandle,
    config: &'r Ecam,
    queues: &'r mut QueueMemory,
) -> Result<Running<'r>, AreaError> {
    match place.location.kind() {
        Kind::Nvme => {
            let region = region_range(place, handle, config);
            start_controller(place, handle, config, region, queues)
        }
        Kind::SharedMemory => start_memory(handle, config),
        // The search lists it apart.
        Kind::Iommu => Err(AreaError::NoArea),
    }
}

/// The range of a controller's memory region. An unusable region is reported and ignored, since the
/// controller's namespaces may be usable.
fn region_range(place: &Place, handle: &mut DeviceHandle, config: &Ecam) -> Option<PhysRange> {
    if let Reach::Placed(_) = place.reach {
        // Its addresses are the plan's.
        return None;
    }
    let bar = match region_bar(&NvmeRegisters::new(handle, config)) {
        Ok(bar) => bar?,
        Err(error) => {
            say!("NVMe: {error}");
            return None;
        }
    };
    let host = &platform().pci[place.host].bridge;
    handle
        .add_memory(config, &clock(), host, &place.location, bar)
        .inspect_err(|error| say!("NVMe memory region: {error}"))
        .ok()
}

fn start_controller<'r>(
    place: &Place,
    handle: &'r DeviceHandle,
    config: &'r Ecam,
    region: Option<PhysRange>,
    queues: &'r mut QueueMemory,
) -> Result<Running<'r>, AreaError> {
    let registers = NvmeRegisters::new(handle, config);
    let clock = DeviceClock::of(handle.function());
    let controller = Controller::start(registers, clock.clone(), queues)?;
    if let Some(facts) = controller.shutdown_facts() {
        disks::found(place.host, &place.location, facts);
    }
    let start = |range| -> Result<_, AreaError> {
        let care = DeviceMemory::new(range, (handle, config), platform().cache_block);
        let region = MemoryRegion::enable(registers, care, &clock)?;
        // SAFETY: as in `start_memory`.
        let memory = unsafe { MappedMemory::new(range) }?;
        Ok(MappedMedium::new(memory, region)?)
    };
    let region = region.and_then(|range| {
        start(range)
            .inspect_err(|error| say!("NVMe memory region: {error}"))
            .ok()
    });
    Ok(Running::Nvme(controller, region))
}

fn start_memory<'r>(handle: &'r DeviceHandle, config: &'r Ecam) -> Result<Running<'r>, AreaError> {
    let range = PhysRange::new(handle.cpu_address(), handle.length());
    let care = DeviceMemory::new(range, (handle, config), platform().cache_block);
    // SAFETY: acquiring made the function answer there until the medium is dropped, and no
    // other Rust object lies in a device.
    let memory = unsafe { MappedMemory::new(range) }?;
    Ok(Running::Mapped(MappedMedium::new(memory, care)?))
}

/// A medium of a running device.
pub(super) enum AnyMedium<'m, 'r> {
    Namespace(NvmeMedium<'m, 'r, NvmeRegisters<'r>, DeviceClock>),
    Mapped(&'m mut dyn Medium),
}

impl LentMedium for AnyMedium<'_, '_> {
    fn disk(&mut self) -> &mut dyn Medium {
        match self {
            AnyMedium::Namespace(medium) => medium,
            AnyMedium::Mapped(medium) => *medium,
        }
    }
}

impl<'r> Device for Running<'r> {
    type Medium<'m>
        = AnyMedium<'m, 'r>
    where
        Self: 'm;

    fn media(&self) -> ArrayVec<(MediumId, u32), MAX_MEDIA> {
        const MEMORY: (MediumId, u32) = (MediumId::Memory, mapped::BLOCK_BYTES);
        match self {
            Running::Nvme(controller, region) => {
                if controller.has_more_namespaces() {
                    say!("NVMe: only the first namespaces are looked at");
                }
                let namespaces = controller.namespaces().iter();
                namespaces
                    .map(|namespace| (MediumId::Namespace(namespace.id), namespace.block_bytes))
                    .chain(region.as_ref().map(|_| MEMORY))
                    .collect()
            }
            Running::Mapped(_) => ArrayVec::from_iter([MEMORY]),
        }
    }

    fn medium(&mut self, id: MediumId) -> Result<Option<AnyMedium<'_, 'r>>, AreaError> {
        Ok(match (self, id) {
            (Running::Nvme(controller, _), MediumId::Namespace(id)) => {
                match controller.medium(id) {
                    Err(NvmeError::Format(_)) => None,
                    other => Some(AnyMedium::Namespace(other?)),
                }
            }
            (Running::Nvme(_, Some(region)), MediumId::Memory) => Some(AnyMedium::Mapped(region)),
            (Running::Mapped(medium), MediumId::Memory) => Some(AnyMedium::Mapped(medium)),
            (Running::Nvme(_, None), MediumId::Memory)
            | (Running::Mapped(_), MediumId::Namespace(_)) => None,
        })
    }

    fn shared_namespace(&mut self, medium: MediumId) -> Result<Option<SharedNamespace>, AreaError> {
        match (self, medium) {
            (Running::Nvme(controller, _), MediumId::Namespace(id)) => {
                Ok(controller.shared_namespace(id)?)
            }
            // Only its controller may use a memory region.
            (Running::Nvme(..) | Running::Mapped(_), _) => Ok(None),
        }
    }
}

impl Running<'_> {
    /// Stops a controller. If it does not stop, its access to memory is taken away. Then only a
    /// reset makes it usable again, which an OS's driver may try.
    fn stop(self, how: Stop) {
        if let Running::Nvme(controller, _) = self
            && let Err(error) = controller.stop(how)
        {
            say!("NVMe: {error}");
        }
    }
}
