//! The way to the sleep area: PCI, NVMe, partition table.

use arrayvec::ArrayVec;
use poorwill_medium::Window;
use poorwill_medium::nvme::{Controller, NvmeError, NvmeMedium, Stop};
use poorwill_medium::pci::{self, Kind, Location, PciError};
use poorwill_memory::Page;
use poorwill_store::{Area, AreaLocation, GptError, StoreError, find_areas};
use poorwill_vault::Guard;
use thiserror::Error;

use super::{MEMORY, Memory, vault};
use crate::platform::console::say;
use crate::platform::pci::{Ecam, NvmeRegisters};
use crate::platform::platform;
use crate::platform::time::Time;

/// A disk with a sleep area, while it is open.
pub(super) type Disk<'c, 'a, 'r> = NvmeMedium<'c, 'a, NvmeRegisters<'r>, &'static Time>;

/// How many controllers are looked at.
const MAX_CONTROLLERS: usize = 16;

/// Why there is no sleep area to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DiskError {
    /// No NVMe controller.
    #[error("no NVMe disk")]
    NoDisk,
    /// No partition of our type.
    #[error("no sleep area on any NVMe disk")]
    NoArea,
    /// Which one to use is not for the firmware to guess.
    #[error("{0} sleep areas, where one is allowed")]
    TooManyAreas(usize),
    /// PCI.
    #[error("{0}")]
    Pci(#[from] PciError),
    /// NVMe.
    #[error("{0}")]
    Nvme(#[from] NvmeError),
    /// Partition table.
    #[error("{0}")]
    Table(#[from] GptError),
    /// The area itself.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl DiskError {
    /// Whether the machine merely lacks what sleeping needs.
    pub(super) fn is_absence(self) -> bool {
        matches!(self, DiskError::NoDisk | DiskError::NoArea)
    }
}

/// Where a controller is.
#[derive(Clone, Debug)]
struct Place {
    host: usize,
    location: Location,
}

/// A sleep area that was found.
#[derive(Clone, Copy, Debug)]
struct Found {
    controller: usize,
    namespace: u32,
    area: AreaLocation,
}

type FoundAreas = ArrayVec<Found, 16>;

/// Runs `job` on the machine's sleep area, and leaves the disk as it was found.
/// `stop` says how the controller is to be left, by what the job came to.
///
/// # Errors
///
/// [`DiskError`]; the job has not run then.
pub(super) fn with_area<R>(
    job: impl FnOnce(&mut Area<'_, Disk<'_, '_, '_>>, &mut [Page]) -> R,
    stop: impl Fn(&R) -> Stop,
) -> Result<R, DiskError> {
    let memory = &mut *MEMORY.lock();
    let places = controllers();
    match places.as_slice() {
        [] => Err(DiskError::NoDisk),
        // Starting a controller takes long on real disks: do it once where
        // there is only one.
        [only] => on_controller(only, memory, stop_of_result(stop), |controller, memory| {
            let areas = areas_of(controller, 0, memory.scratch)?;
            on_area(controller, the_only(&areas)?, memory, job)
        }),
        several => {
            let found = the_only(&survey(several, memory))?;
            let place = &several[found.controller];
            on_controller(place, memory, stop_of_result(stop), |controller, memory| {
                on_area(controller, found, memory, job)
            })
        }
    }
}

/// Runs `job` on every sleep area that can be reached, for machines that have
/// more than one.
pub(super) fn for_each_area(mut job: impl FnMut(&mut Area<'_, Disk<'_, '_, '_>>)) {
    let memory = &mut *MEMORY.lock();
    let places = controllers();
    for found in survey(&places, memory) {
        let place = &places[found.controller];
        let done = on_controller(
            place,
            memory,
            |_| Stop::Handover,
            |controller, memory| on_area(controller, found, memory, |area, _| job(area)),
        );
        if let Err(error) = done {
            say!("NVMe disk {}: {error}", found.controller);
        }
    }
}

/// How to leave a controller whose job may not have run.
fn stop_of_result<R>(stop: impl Fn(&R) -> Stop) -> impl Fn(&Result<R, DiskError>) -> Stop {
    move |result| result.as_ref().map_or(Stop::Handover, &stop)
}

fn controllers() -> ArrayVec<Place, MAX_CONTROLLERS> {
    let mut places = ArrayVec::new();
    for (host, described) in platform().pci.iter().enumerate() {
        // SAFETY: the device tree describes the bridge, and the OS's harts are
        // stopped or not yet started.
        let config = unsafe { Ecam::new(described) };
        let search = pci::find(&config, &platform().time, &described.bridge);
        if let Some(complaint) = search.complaint {
            say!("PCI: {complaint}");
        }
        let here = search
            .devices
            .into_iter()
            .filter(|location| location.kind() == Kind::Nvme)
            .map(|location| Place { host, location });
        places.extend(here.take(MAX_CONTROLLERS - places.len()));
    }
    places
}

/// The areas of several controllers. One that fails is named and passed over:
/// it may have nothing to do with sleeping.
fn survey(places: &[Place], memory: &mut Memory) -> FoundAreas {
    let mut all = FoundAreas::new();
    for (index, place) in places.iter().enumerate() {
        let areas = on_controller(
            place,
            memory,
            |_| Stop::Handover,
            |controller, memory| areas_of(controller, index, memory.scratch),
        );
        match areas {
            Ok(areas) => {
                let room = all.remaining_capacity();
                all.extend(areas.into_iter().take(room));
            }
            Err(error) => say!("NVMe disk {index}: {error}"),
        }
    }
    all
}

fn the_only(areas: &FoundAreas) -> Result<Found, DiskError> {
    match areas.as_slice() {
        [] => Err(DiskError::NoArea),
        [only] => Ok(*only),
        several => Err(DiskError::TooManyAreas(several.len())),
    }
}

type Running<'a, 'r> = Controller<'a, NvmeRegisters<'r>, &'static Time>;

fn on_controller<R>(
    place: &Place,
    memory: &mut Memory,
    stop: impl Fn(&Result<R, DiskError>) -> Stop,
    job: impl FnOnce(&mut Running<'_, '_>, &mut Rest<'_>) -> Result<R, DiskError>,
) -> Result<R, DiskError> {
    let time = &platform().time;
    let described = &platform().pci[place.host];
    // SAFETY: as in `controllers`.
    let config = unsafe { Ecam::new(described) };
    let claim = pci::claim(&config, time, &described.bridge, &place.location)?;
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
    let result = match Controller::start(NvmeRegisters::new(&claim, &config), time, queues) {
        Ok(mut controller) => {
            if controller.has_more_namespaces() {
                say!("NVMe: only the first namespaces are looked at");
            }
            let result = job(&mut controller, &mut rest);
            stop_controller(controller, stop(&result));
            result
        }
        Err(error) => Err(error.into()),
    };
    claim.release(&config, time);
    result
}

/// Stops the controller. One that does not stop has lost its access to memory;
/// only a reset makes it usable again, which an OS's own driver may try.
fn stop_controller(controller: Running<'_, '_>, how: Stop) {
    if let Err(error) = controller.stop(how) {
        say!("NVMe: {error}");
    }
}

/// What is left of [`Memory`] beside the queues.
struct Rest<'m> {
    scratch: &'m mut [Page],
    record: &'m mut Page,
    workspace: &'m mut [Page],
}

fn areas_of(
    controller: &mut Running<'_, '_>,
    index: usize,
    scratch: &mut [Page],
) -> Result<FoundAreas, DiskError> {
    let mut found = FoundAreas::new();
    let namespaces: ArrayVec<_, 64> = controller.namespaces().iter().copied().collect();
    for namespace in namespaces {
        // A namespace in a format that is not ours holds no area of ours.
        let mut disk = match controller.medium(namespace.id) {
            Err(NvmeError::Format(_)) => continue,
            other => other?,
        };
        for area in find_areas(&mut disk, namespace.block_bytes, scratch)? {
            let _ = found.try_push(Found {
                controller: index,
                namespace: namespace.id,
                area,
            });
        }
    }
    Ok(found)
}

fn on_area<R>(
    controller: &mut Running<'_, '_>,
    found: Found,
    memory: &mut Rest<'_>,
    job: impl FnOnce(&mut Area<'_, Disk<'_, '_, '_>>, &mut [Page]) -> R,
) -> Result<R, DiskError> {
    let mut disk = controller.medium(found.namespace)?;
    let window = Window::new(&mut disk, found.area.start, found.area.length)
        .map_err(|error| DiskError::Store(error.into()))?;
    vault::with_guard(|guard| {
        // A trait object of any lifetime, which that of the disk is to be.
        let guard = guard.map(|guard| guard as &mut dyn Guard);
        let mut area = Area::open(window, memory.record, guard)?;
        Ok(job(&mut area, memory.workspace))
    })
}
