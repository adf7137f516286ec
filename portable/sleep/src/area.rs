//! The way to the sleep area: devices, their media, partition tables.

use core::slice;

use arrayvec::ArrayVec;
use poorwill_medium::nvme::{SharedNamespace, Stop};
use poorwill_medium::{Medium, Window};
use poorwill_memory::Page;
use poorwill_store::{
    Area, AreaLocation, Configuration, PartitionFingerprints, find_areas, fingerprint_partitions,
};
use poorwill_vault::RollbackCounter;

use crate::device::{Device, MediumId};
use crate::error::AreaError;
use crate::event::Event;
use crate::machine::Machine;
use crate::sealing::with_guard;
use crate::work::Work;

/// An area on any medium.
pub(crate) type AnyArea<'a, 'd> = Area<'a, Disk<'d>>;

/// A medium, whatever it is.
pub(crate) type Disk<'m> = &'m mut dyn Medium;

/// Where an area is on its device.
#[derive(Clone, Copy, Debug)]
struct Found {
    medium: MediumId,
    area: AreaLocation,
}

/// The areas that were found: which is the first, and how many.
#[derive(Clone, Copy, Debug, Default)]
struct Areas {
    /// On which of the devices, and where there.
    first: Option<(usize, Found)>,
    count: usize,
}

impl Areas {
    fn add(&mut self, device: usize, found: Found) {
        self.first = self.first.or(Some((device, found)));
        self.count += 1;
    }

    /// Adds those of another device.
    fn join(&mut self, other: Areas) {
        self.first = self.first.or(other.first);
        self.count += other.count;
    }

    fn the_only(self) -> Result<(usize, Found), AreaError> {
        match (self.first, self.count) {
            (Some(found), 1) => Ok(found),
            (None, _) => Err(AreaError::NoArea),
            (Some(_), count) => Err(AreaError::TooManyAreas(count)),
        }
    }
}

/// The shared namespaces that hold areas and were visited. Each is used through the controller
/// that was first, and counts once.
#[derive(Debug, Default)]
struct Visited(ArrayVec<SharedNamespace, MAX_SHARED>);

/// Shared namespaces with sleep areas that are remembered: one more than a machine may have. Any
/// further one may count twice; the machine has too many areas in any case.
const MAX_SHARED: usize = 2;

impl Visited {
    /// Whether the medium of this device was visited through another controller. If not, it
    /// counts as visited from now on.
    fn includes(&mut self, device: &mut dyn Device, medium: MediumId) -> Result<bool, AreaError> {
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

/// What a job on a sleep area works with.
pub(crate) struct OpenArea<'w, 'a, 'd> {
    pub(crate) area: &'w mut Area<'a, Disk<'d>>,
    /// For an image.
    pub(crate) workspace: &'w mut [Page],
    /// The fingerprints of the partitions beside it, if they are needed; or why there are
    /// none.
    pub(crate) fingerprints: Fingerprints<'w>,
}

/// See [`OpenArea`].
pub(crate) type Fingerprints<'w> = Result<&'w mut PartitionFingerprints, AreaError>;

/// Runs `job` on the machine's sleep area, and leaves the disk as it was found.
/// `needs_fingerprints` says whether the job does, to which that is a matter of time.
/// `stop` says how a controller is to be left, by what the job came to.
///
/// # Errors
///
/// [`AreaError`]; the job has not run then.
pub(crate) fn with_area<M: Machine, R>(
    machine: &M,
    work: &mut Work<'_>,
    needs_fingerprints: impl Fn(&mut Area<'_, Disk<'_>>) -> bool,
    job: impl FnOnce(OpenArea<'_, '_, '_>) -> R,
    stop: impl Fn(&R) -> Stop,
) -> Result<R, AreaError> {
    let needs = &needs_fingerprints;
    // A job may not have run.
    let stop = |result: &Result<R, AreaError>| result.as_ref().map_or(Stop::Handover, &stop);
    match machine.devices().as_slice() {
        [] => Err(AreaError::NoDisk),
        // Starting a controller takes long on real disks: do it once where
        // there is only one device.
        [only] => machine.on_device(only, stop, |device| {
            let mut areas = Areas::default();
            // One controller does not list a namespace twice.
            visit(device, work.scratch, None, &mut |_, found, _| {
                areas.add(0, found);
                Ok(())
            })?;
            let (_, found) = areas.the_only()?;
            on_area(machine, device, found, work, needs, job)
        }),
        several => {
            let (number, found) = survey(machine, several, work.scratch).the_only()?;
            machine.on_device(&several[number], stop, |device| {
                on_area(machine, device, found, work, needs, job)
            })
        }
    }
}

/// How the machine is to sleep, by its sleep area. Without one, with several, and where it
/// cannot be read, that is the default. What the vault says is not asked for.
pub(crate) fn configuration<M: Machine>(machine: &M, work: &mut Work<'_>) -> Configuration {
    let mut areas = Areas::default();
    let mut configuration = Ok(Configuration::default());
    on_each_device(
        machine,
        &machine.devices(),
        &mut |number, device, visited| {
            let record = &mut *work.record;
            let mut here = Areas::default();
            visit(device, work.scratch, visited, &mut |mut disk, found, _| {
                let window = Window::new(&mut disk, found.area.start, found.area.length);
                let mut window = window.map_err(|error| AreaError::Store(error.into()))?;
                here.add(number, found);
                configuration = Configuration::read(&mut window, record);
                Ok(())
            })?;
            areas.join(here);
            Ok(())
        },
    );
    match (areas.the_only(), configuration) {
        (Ok(_), Ok(configuration)) => configuration,
        (Ok(_), Err(error)) => {
            machine.say(&Event::Configuration(error));
            Configuration::default()
        }
        (Err(_), _) => Configuration::default(),
    }
}

/// Runs `job` on every sleep area that can be reached, for machines that have more
/// than one.
pub(crate) fn for_each_area<M: Machine>(
    machine: &M,
    work: &mut Work<'_>,
    job: &mut dyn FnMut(&mut Area<'_, Disk<'_>>),
) {
    on_each_device(machine, &machine.devices(), &mut |_, device, visited| {
        let Work {
            scratch, record, ..
        } = work;
        visit(device, scratch, visited, &mut |disk, found, _| {
            open_area(machine, disk, found.area, record, job)
        })
    });
}

/// The areas of several devices.
fn survey<M: Machine>(machine: &M, places: &[M::Place], scratch: &mut Page) -> Areas {
    let mut areas = Areas::default();
    on_each_device(machine, places, &mut |number, device, visited| {
        let mut here = Areas::default();
        visit(device, scratch, visited, &mut |_, found, _| {
            here.add(number, found);
            Ok(())
        })?;
        areas.join(here);
        Ok(())
    });
    areas
}

/// A job on a device: on the device of this number.
type DeviceJob<'j> =
    dyn FnMut(usize, &mut dyn Device, Option<&mut Visited>) -> Result<(), AreaError> + 'j;

/// Runs `job` on every device. One that fails is named and passed over: it may have
/// nothing to do with sleeping. A namespace that it shares can be visited through another.
fn on_each_device<M: Machine>(machine: &M, places: &[M::Place], job: &mut DeviceJob<'_>) {
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

/// What [`visit`] runs for each area: on its disk, with the page that is for looking
/// at partitions.
type Visit<'v> = dyn FnMut(Disk<'_>, Found, &mut Page) -> Result<(), AreaError> + 'v;

/// Runs `job` for each area of a device. A medium in a format that is not ours holds
/// none; one that was `visited` through another device is passed over.
fn visit(
    device: &mut dyn Device,
    scratch: &mut Page,
    mut visited: Option<&mut Visited>,
    job: &mut Visit<'_>,
) -> Result<(), AreaError> {
    for (medium, block_bytes) in device.media() {
        let mut areas = ArrayVec::new();
        device.on_medium(medium, &mut |mut disk| {
            areas = find_areas(&mut disk, block_bytes, slice::from_mut(scratch))?;
            Ok(())
        })?;
        if areas.is_empty() {
            continue;
        }
        if let Some(visited) = &mut visited
            && visited.includes(device, medium)?
        {
            continue;
        }
        device.on_medium(medium, &mut |disk| {
            for &area in &areas {
                job(disk, Found { medium, area }, scratch)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn on_area<M: Machine, R>(
    machine: &M,
    device: &mut dyn Device,
    found: Found,
    work: &mut Work<'_>,
    needs_fingerprints: &impl Fn(&mut Area<'_, Disk<'_>>) -> bool,
    job: impl FnOnce(OpenArea<'_, '_, '_>) -> R,
) -> Result<R, AreaError> {
    let mut fingerprints = PartitionFingerprints::new();
    let mut taken = Ok(());
    let (mut job, mut done) = (Some(job), None);
    for is_guarded in [false, true] {
        if is_guarded {
            taken = guard_device(device, work.scratch, &mut fingerprints);
        }
        let Work {
            record, workspace, ..
        } = work;
        device.on_medium(found.medium, &mut |disk| {
            open_area(machine, disk, found.area, record, &mut |area| {
                if is_guarded || !needs_fingerprints(area) {
                    done = job.take().map(|job| {
                        job(OpenArea {
                            area,
                            workspace,
                            fingerprints: taken.map(|()| &mut fingerprints),
                        })
                    });
                }
            })
        })?;
        if done.is_some() {
            break;
        }
    }
    done.ok_or(AreaError::NoArea)
}

#[inline(never)]
fn guard_device(
    device: &mut dyn Device,
    scratch: &mut Page,
    fingerprints: &mut PartitionFingerprints,
) -> Result<(), AreaError> {
    for (number, (medium, block_bytes)) in (0..).zip(device.media()) {
        device.on_medium(medium, &mut |mut disk| {
            let scratch = slice::from_mut(scratch);
            Ok(fingerprint_partitions(
                &mut disk,
                number,
                block_bytes,
                scratch,
                fingerprints,
            )?)
        })?;
    }
    Ok(())
}

/// Runs `job` on the area, its records read anew.
// Once in the firmware, whatever the job: its memory is short.
#[inline(never)]
fn open_area<M: Machine>(
    machine: &M,
    mut disk: Disk<'_>,
    area: AreaLocation,
    record: &mut Page,
    job: &mut dyn FnMut(&mut Area<'_, Disk<'_>>),
) -> Result<(), AreaError> {
    let window = Window::new(&mut disk, area.start, area.length)
        .map_err(|error| AreaError::Store(error.into()))?;
    with_guard(machine, |counter| {
        // A trait object of any lifetime, which that of the disk is to be.
        let counter = counter.map(|counter| counter as &mut dyn RollbackCounter);
        job(&mut Area::open(window, record, counter)?);
        Ok(())
    })
}
