//! The way to the sleep area: PCI, a device, its partition table.

use core::slice;

use arrayvec::ArrayVec;
use poorwill_image::ImageKind;
use poorwill_medium::Window;
use poorwill_medium::mapped::MappedError;
use poorwill_medium::nvme::{NvmeError, Stop};
use poorwill_medium::pci::{self, PciError};
use poorwill_memory::Page;
use poorwill_store::{
    Area, AreaLocation, GptError, PartitionGuards, StoreError, find_areas, guard_partitions,
};
use poorwill_vault::Guard;
use thiserror::Error;

use super::device::{Device, Disk, Part, Place, Rest, on_device};
use super::{Memory, vault, work_memory};
use crate::platform::console::say;
use crate::platform::pci::Ecam;
use crate::platform::platform;

/// How many devices are looked at.
const MAX_DEVICES: usize = 16;

/// Why there is no sleep area to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DiskError {
    /// Neither an NVMe controller nor memory that could hold an area.
    #[error("no NVMe disk and no persistent memory")]
    NoDisk,
    /// No partition of our type.
    #[error("no sleep area on any NVMe disk or persistent memory")]
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
    /// Mapped memory.
    #[error("{0}")]
    Mapped(#[from] MappedError),
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

/// A sleep area that was found.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Which of the places that were looked at.
    place: usize,
    part: Part,
    area: AreaLocation,
}

type FoundAreas = ArrayVec<Found, 16>;

/// What a job on a sleep area works with.
pub(super) struct Work<'w, 'a, 'd> {
    pub(super) area: &'w mut Area<'a, Disk<'d>>,
    pub(super) pages: &'w mut [Page],
    /// The guards of the partitions beside it, if there is a snapshot to wake or to
    /// be made.
    pub(super) guards: &'w PartitionGuards,
}

/// Runs `job` on the machine's sleep area, and leaves the disk as it was found.
/// `stop` says how a controller is to be left, by what the job came to.
///
/// # Errors
///
/// [`DiskError`]; the job has not run then.
pub(super) fn with_area<R>(
    job: impl FnOnce(Work<'_, '_, '_>) -> R,
    stop: impl Fn(&R) -> Stop,
) -> Result<R, DiskError> {
    let memory = &mut *work_memory();
    let places = devices();
    match places.as_slice() {
        [] => Err(DiskError::NoDisk),
        // Starting a controller takes long on real disks: do it once where
        // there is only one device.
        [only] => on_device(only, memory, stop_of_result(stop), |device, memory| {
            let areas = areas_of(device, 0, memory.scratch)?;
            on_area(device, the_only(&areas)?, memory, job)
        }),
        several => {
            let found = the_only(&survey(several, memory))?;
            let place = &several[found.place];
            on_device(place, memory, stop_of_result(stop), |device, memory| {
                on_area(device, found, memory, job)
            })
        }
    }
}

/// Runs `job` on every sleep area that can be reached, for machines that have
/// more than one.
pub(super) fn for_each_area(mut job: impl FnMut(&mut Area<'_, Disk<'_>>)) {
    let memory = &mut *work_memory();
    let places = devices();
    for found in survey(&places, memory) {
        let place = &places[found.place];
        let done = on_device(
            place,
            memory,
            |_| Stop::Handover,
            |device, memory| on_area(device, found, memory, |work| job(work.area)),
        );
        if let Err(error) = done {
            say!("{} {}: {error}", place.location.kind(), found.place);
        }
    }
}

/// How to leave a controller whose job may not have run.
fn stop_of_result<R>(stop: impl Fn(&R) -> Stop) -> impl Fn(&Result<R, DiskError>) -> Stop {
    move |result| result.as_ref().map_or(Stop::Handover, &stop)
}

fn devices() -> ArrayVec<Place, MAX_DEVICES> {
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
            .map(|location| Place { host, location });
        places.extend(here.take(MAX_DEVICES - places.len()));
    }
    places
}

/// The areas of several devices. One that fails is named and passed over:
/// it may have nothing to do with sleeping.
fn survey(places: &[Place], memory: &mut Memory) -> FoundAreas {
    let mut all = FoundAreas::new();
    for (index, place) in places.iter().enumerate() {
        let areas = on_device(
            place,
            memory,
            |_| Stop::Handover,
            |device, memory| areas_of(device, index, memory.scratch),
        );
        match areas {
            Ok(areas) => {
                let room = all.remaining_capacity();
                all.extend(areas.into_iter().take(room));
            }
            Err(error) => say!("{} {index}: {error}", place.location.kind()),
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

fn areas_of(
    device: &mut Device<'_, '_>,
    place: usize,
    scratch: &mut Page,
) -> Result<FoundAreas, DiskError> {
    let mut found = FoundAreas::new();
    for (part, block_bytes) in device.parts() {
        // A medium in a format that is not ours holds no area of ours.
        let areas = device.on_part(part, |mut disk| {
            Ok(find_areas(
                &mut disk,
                block_bytes,
                slice::from_mut(scratch),
            )?)
        })?;
        for area in areas.into_iter().flatten() {
            let _ = found.try_push(Found { place, part, area });
        }
    }
    Ok(found)
}

fn on_area<R>(
    device: &mut Device<'_, '_>,
    found: Found,
    memory: &mut Rest<'_>,
    job: impl FnOnce(Work<'_, '_, '_>) -> R,
) -> Result<R, DiskError> {
    let mut guards = PartitionGuards::new();
    let (mut job, mut done) = (Some(job), None);
    for is_guarded in [false, true] {
        if is_guarded {
            guard_device(device, memory, &mut guards)?;
        }
        open_area(device, found, memory, &mut |area, pages| {
            if is_guarded || !deals_with_snapshot(area) {
                let guards = &guards;
                done = job.take().map(|job| {
                    job(Work {
                        area,
                        pages,
                        guards,
                    })
                });
            }
        })?;
        if done.is_some() {
            break;
        }
    }
    done.ok_or(DiskError::NoArea)
}

/// Whether a snapshot is to wake, or to be made.
fn deals_with_snapshot(area: &mut Area<'_, Disk<'_>>) -> bool {
    let wakes = area.newest().map(|image| image.kind());
    wakes == Ok(ImageKind::Snapshot)
        || area
            .configuration()
            .is_ok_and(|configuration| configuration.next_snapshot.is_some())
}

#[inline(never)]
fn guard_device(
    device: &mut Device<'_, '_>,
    memory: &mut Rest<'_>,
    guards: &mut PartitionGuards,
) -> Result<(), DiskError> {
    for (number, (part, block_bytes)) in (0..).zip(device.parts()) {
        device.on_part(part, |mut disk| {
            let scratch = slice::from_mut(memory.scratch);
            Ok(guard_partitions(
                &mut disk,
                number,
                block_bytes,
                scratch,
                guards,
            )?)
        })?;
    }
    Ok(())
}

/// Runs `job` on the area, its records read anew. Does nothing if the medium is in
/// a format that is not ours.
// Once in the firmware, whatever the job: its memory is short.
#[inline(never)]
fn open_area(
    device: &mut Device<'_, '_>,
    found: Found,
    memory: &mut Rest<'_>,
    job: &mut dyn FnMut(&mut Area<'_, Disk<'_>>, &mut [Page]),
) -> Result<(), DiskError> {
    let done = device.on_part(found.part, |mut disk| {
        let window = Window::new(&mut disk, found.area.start, found.area.length)
            .map_err(|error| DiskError::Store(error.into()))?;
        vault::with_guard(|guard| {
            // A trait object of any lifetime, which that of the disk is to be.
            let guard = guard.map(|guard| guard as &mut dyn Guard);
            let mut area = Area::open(window, memory.record, guard)?;
            job(&mut area, memory.workspace);
            Ok(())
        })
    })?;
    done.ok_or(DiskError::NoArea)
}
