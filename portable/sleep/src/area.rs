//! Finds and opens the sleep area: searches devices, their media and their partition tables.

use core::slice;

use arrayvec::ArrayVec;
use poorwill_medium::nvme::{SharedNamespace, Stop};
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{
    Area, AreaLocation, Configuration, DiskId, GptError, PartitionFingerprints, find_areas,
    fingerprint_partitions,
};

use crate::device::{Device, LentMedium, MAX_MEDIA, MediumId};
use crate::error::AreaError;
use crate::event::Event;
use crate::machine::{Devices, LentVault, Machine};
use crate::sealing::counter;
use crate::work::Work;

/// An area on any medium.
pub(crate) type AnyArea<'a, 'd> = Area<'a, Disk<'d>>;

/// A medium of any kind.
pub(crate) type Disk<'m> = &'m mut dyn Medium;

/// The place of an area on its device.
#[derive(Clone, Copy, Debug)]
struct Found {
    medium: MediumId,
    area: AreaLocation,
}

/// The first of the areas that were found, and their number.
#[derive(Clone, Copy, Debug, Default)]
struct Areas {
    /// The index of its device, and its place there.
    first: Option<(usize, Found)>,
    count: usize,
    /// Why a device's area cannot be used. It is the reason of a refusal if there is no other area.
    refused: Option<AreaError>,
}

impl Areas {
    fn add(&mut self, device: usize, found: Found) {
        self.first = self.first.or(Some((device, found)));
        self.count += 1;
    }

    /// Adds the areas of another device.
    fn join(&mut self, other: Areas) {
        self.first = self.first.or(other.first);
        self.count += other.count;
        self.refused = self.refused.or(other.refused);
    }

    /// Adds a device that cannot be searched.
    fn refuse(&mut self, error: AreaError) {
        if error.concerns_area() {
            self.refused = self.refused.or(Some(error));
        }
    }

    fn the_only(self) -> Result<(usize, Found), AreaError> {
        match (self.first, self.count) {
            (Some(found), 1) => Ok(found),
            (None, _) => Err(self.refused.unwrap_or(AreaError::NoArea)),
            (Some(_), count) => Err(AreaError::TooManyAreas(count)),
        }
    }
}

/// The visited shared namespaces that hold areas. Each is used through the first controller that
/// shows it, and counts once.
#[derive(Debug, Default)]
struct Visited(ArrayVec<SharedNamespace, MAX_SHARED>);

/// Maximum number of shared namespaces with sleep areas that are remembered: one more than a
/// machine may have. A further one may count twice, but the machine then has too many areas in any
/// case.
const MAX_SHARED: usize = 2;

impl Visited {
    /// Returns whether this medium was visited through another controller. If it was not, it counts
    /// as visited from now on.
    fn includes(&mut self, device: &mut impl Device, medium: MediumId) -> Result<bool, AreaError> {
        let Some(namespace) = device.shared_namespace(medium)? else {
            return Ok(false);
        };
        let includes = self.0.iter().any(|visited| visited.is_same(&namespace));
        if !includes {
            // See `MAX_SHARED`.
            self.0.try_push(namespace).unwrap_or_default();
        }
        Ok(includes)
    }
}

/// An open sleep area, with the memory for a job on it.
pub(crate) struct OpenArea<'w, 'a, 'd> {
    pub(crate) area: &'w mut Area<'a, Disk<'d>>,
    /// Memory for an image.
    pub(crate) workspace: &'w mut [Page],
    /// The fingerprints of the partitions beside the area, if they are needed; or the reason why
    /// they are missing.
    pub(crate) fingerprints: Fingerprints<'w>,
}

/// The `fingerprints` of an [`OpenArea`].
pub(crate) type Fingerprints<'w> = Result<&'w mut Partitions, AreaError>;

/// The partitions of a device.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    pub(crate) fingerprints: PartitionFingerprints,
    /// The device's disks in the order of their list, for images of before, which name a disk by its
    /// position.
    pub(crate) disks: ArrayVec<DiskId, MAX_MEDIA>,
}

/// Runs `job` on the machine's sleep area, then restores the disk's previous state.
/// `needs_fingerprints` returns whether the job needs the fingerprints, which take time. `stop`
/// chooses how a controller is stopped, from the job's result.
///
/// # Errors
///
/// [`AreaError`]: the job has not run.
pub(crate) fn with_area<M: Machine, R>(
    machine: &M,
    work: &mut Work<'_>,
    needs_fingerprints: impl Fn(&mut Area<'_, Disk<'_>>) -> bool,
    job: impl FnOnce(OpenArea<'_, '_, '_>) -> R,
    stop: impl Fn(&R) -> Stop,
) -> Result<R, AreaError> {
    // Without a result the job has not run, so the OS gets the controller back.
    let stop = |result: &Result<R, AreaError>| result.as_ref().map_or(Stop::Handover, &stop);
    let places = machine.devices();
    // The start of a controller takes long on real disks. If there is only one, it is started only
    // once.
    let (place, found) = match places.as_slice() {
        [] => return Err(AreaError::NoDisk),
        [only] => (only, None),
        several => {
            let (number, found) = survey(machine, several, work.scratch).the_only()?;
            (&several[number], Some(found))
        }
    };
    machine.on_device(place, stop, |device| {
        let found = match found {
            Some(found) => found,
            // A controller does not list a namespace twice, so there is nothing to remember.
            None => look(device, 0, work.scratch, None)?.the_only()?.1,
        };
        on_area(machine, device, found, work, needs_fingerprints, job)
    })
}

/// Runs `job` on an area of a device. The inner block returns the medium and the vault before the
/// fingerprints are taken.
// Not inlined: a job needs most of the stack, and this frame lies above it.
#[inline(never)]
fn on_area<M: Machine, R>(
    machine: &M,
    device: &mut M::Device<'_>,
    found: Found,
    work: &mut Work<'_>,
    needs_fingerprints: impl Fn(&mut Area<'_, Disk<'_>>) -> bool,
    job: impl FnOnce(OpenArea<'_, '_, '_>) -> R,
) -> Result<R, AreaError> {
    let mut partitions = Partitions::default();
    let mut taken = None;
    loop {
        {
            let mut medium = device.medium(found.medium)?.ok_or(AreaError::NoArea)?;
            let mut vault = machine.vault();
            let mut disk = medium.disk();
            let mut area = open_area(machine, &mut disk, found.area, work.record, &mut vault)?;
            if taken.is_some() || !needs_fingerprints(&mut area) {
                return Ok(job(OpenArea {
                    area: &mut area,
                    workspace: work.workspace,
                    fingerprints: taken.unwrap_or(Ok(())).map(|()| &mut partitions),
                }));
            }
        }
        taken = Some(fingerprint(device, work.scratch, &mut partitions));
    }
}

/// The configuration of the machine's sleep area; `None` without an area, or with several. An
/// unreadable configuration counts as the default. The vault is not used.
pub(crate) fn configuration<M: Machine>(machine: &M, work: &mut Work<'_>) -> Option<Configuration> {
    let mut areas = Areas::default();
    let mut configuration = Ok(Configuration::default());
    let Work {
        scratch, record, ..
    } = work;
    on_each_device(
        machine,
        &machine.devices(),
        &mut |number, device, visited| {
            let here = look(device, number, scratch, visited)?;
            if let Some((_, found)) = here.first {
                let mut medium = device.medium(found.medium)?.ok_or(AreaError::NoArea)?;
                let mut disk = medium.disk();
                configuration = Configuration::read(&mut window(&mut disk, found.area)?, record);
            }
            areas.join(here);
            Ok(())
        },
    );
    areas.the_only().ok()?;
    Some(configuration.unwrap_or_else(|error| {
        machine.say(&Event::Configuration(error));
        Configuration::default()
    }))
}

/// Runs `job` on each sleep area that can be reached, on machines with more than one.
pub(crate) fn for_each_area<M: Machine>(
    machine: &M,
    work: &mut Work<'_>,
    job: &mut dyn FnMut(&mut Area<'_, Disk<'_>>),
) {
    let Work {
        scratch, record, ..
    } = work;
    on_each_device(machine, &machine.devices(), &mut |_, device, visited| {
        visit(device, scratch, visited, &mut |mut disk, found| {
            let mut vault = machine.vault();
            job(&mut open_area(
                machine, &mut disk, found.area, record, &mut vault,
            )?);
            Ok(())
        })
    });
}

/// The areas of all devices.
fn survey<M: Machine>(machine: &M, places: &[M::Place], scratch: &mut Page) -> Areas {
    let mut areas = Areas::default();
    on_each_device(machine, places, &mut |number, device, visited| {
        let found = look(device, number, scratch, visited);
        if let Err(error) = found {
            areas.refuse(error);
        }
        areas.join(found?);
        Ok(())
    });
    areas
}

/// The areas of the device with this index.
fn look(
    device: &mut impl Device,
    number: usize,
    scratch: &mut Page,
    visited: Option<&mut Visited>,
) -> Result<Areas, AreaError> {
    let mut areas = Areas::default();
    visit(device, scratch, visited, &mut |_, found| {
        areas.add(number, found);
        Ok(())
    })?;
    Ok(areas)
}

/// A job on a device, which also gets the device's index.
type DeviceJob<'j, M> = dyn FnMut(usize, &mut <M as Devices>::Device<'_>, Option<&mut Visited>) -> Result<(), AreaError>
    + 'j;

/// Runs `job` on each device. A device that fails is reported and skipped, since it may be
/// unrelated to sleep. Its shared namespaces can be visited through another device.
fn on_each_device<'j, M: Machine + 'j>(
    machine: &M,
    places: &[M::Place],
    job: &'j mut DeviceJob<'j, M>,
) {
    let mut visited = Visited::default();
    for (number, place) in places.iter().enumerate() {
        let before = visited.0.len();
        let shared = (places.len() > 1).then_some(&mut visited);
        let done = machine.on_device(
            place,
            |_| Stop::Handover,
            |device| job(number, device, shared),
        );
        if let Err(error) = done {
            visited.0.truncate(before);
            machine.say(&Event::Device {
                place,
                number,
                error,
            });
        }
    }
}

/// Runs `job` for each area of a device, with its disk. Skips media in unknown formats, and those
/// that were `visited` through another device. A medium whose table is refused does not hide the
/// areas of the others, whose images must be discarded.
fn visit(
    device: &mut impl Device,
    scratch: &mut Page,
    mut visited: Option<&mut Visited>,
    job: &mut dyn FnMut(Disk<'_>, Found) -> Result<(), AreaError>,
) -> Result<(), AreaError> {
    let mut refused = Ok(());
    for (id, block_bytes) in device.media() {
        let areas = match device.medium(id)? {
            Some(mut medium) => {
                find_areas(&mut medium.disk(), block_bytes, slice::from_mut(scratch))
            }
            None => continue,
        };
        let areas = match areas {
            Ok(areas) if areas.is_empty() => continue,
            Ok(areas) => areas,
            Err(error @ GptError::Medium(_)) => return Err(error.into()),
            Err(error) => {
                refused = refused.and(Err(error.into()));
                continue;
            }
        };
        if let Some(visited) = &mut visited
            && visited.includes(device, id)?
        {
            continue;
        }
        let Some(mut medium) = device.medium(id)? else {
            continue;
        };
        for area in areas {
            job(medium.disk(), Found { medium: id, area })?;
        }
    }
    refused
}

/// Takes the fingerprints of the partitions on all media of a device.
#[inline(never)]
fn fingerprint(
    device: &mut impl Device,
    scratch: &mut Page,
    Partitions {
        fingerprints,
        disks,
    }: &mut Partitions,
) -> Result<(), AreaError> {
    let media = device.media();
    *disks = media.iter().map(|&(id, _)| id.into()).collect();
    for (id, block_bytes) in media {
        if let Some(mut medium) = device.medium(id)? {
            let (mut disk, scratch) = (medium.disk(), slice::from_mut(scratch));
            fingerprint_partitions(&mut disk, id.into(), block_bytes, scratch, fingerprints)?;
        }
    }
    Ok(())
}

/// Opens the area: reads its records again.
#[inline(never)]
fn open_area<'a, 'd>(
    machine: &impl Machine,
    disk: &'a mut Disk<'d>,
    area: AreaLocation,
    record: &'a mut Page,
    vault: &'a mut impl LentVault,
) -> Result<Area<'a, Disk<'d>>, AreaError> {
    Ok(Area::open(
        window(disk, area)?,
        record,
        counter(vault),
        machine.format(),
    )?)
}

fn window<'a, 'd>(
    disk: &'a mut Disk<'d>,
    area: AreaLocation,
) -> Result<Window<'a, Disk<'d>>, AreaError> {
    Window::new(disk, area.start, area.length).map_err(|error| AreaError::Store(error.into()))
}
