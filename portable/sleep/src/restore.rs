//! Restores memory from a committed image, or returns why not.

use poorwill_image::{Here, ImageKind, LoadError, Loaded, Opened, Progress, Workspace, load, open};
use poorwill_medium::MediumError;
use poorwill_memory::{OsMemory, Page};
use poorwill_store::{Admitted, CommittedImage, DiscardReason, Failure, SlotId, StoreError};

use crate::area::AnyArea;
use crate::error::{NoWake, Refusal, StateRefusal};
use crate::machine::{Domain, Machine};
use crate::warm_reset::LoadMark;

/// The result of a power-on with a sleep area.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, and no heap to put it on"
)]
#[derive(Debug)]
pub(crate) enum Restored<'w, S> {
    /// Memory is restored.
    Whole {
        /// The machine's state, which is not restored yet.
        state: S,
        /// The image.
        image: Opened<'w>,
        /// The facts of the load.
        loaded: Loaded,
    },
    /// The machine boots cold. The second value is an error of discarding its images, or of marking
    /// a failure as reported.
    Cold(NoWake, Option<StoreError>),
    /// OS memory is partially restored: the machine must be reset before a cold boot.
    Partial(Admitted, Failure),
}

/// Restores memory from the area's image, if there is one and it may wake. `read` reads the
/// machine's state before the image is consumed.
pub(crate) fn restore<'w, S, M: Machine>(
    area: &mut AnyArea<'_, '_>,
    memory: &mut OsMemory,
    pages: &'w mut [Page],
    here: &Here<'_>,
    machine: &M,
    read: impl FnOnce(&Opened<'w>) -> Result<S, StateRefusal>,
    progress: &mut dyn FnMut(Progress),
) -> Restored<'w, S> {
    if let Some((slot, failure)) = area.unreported_failure() {
        let noted = area.mark_reported(slot);
        let discarded = area.discard_all(DiscardReason::ColdBoot);
        return Restored::Cold(NoWake::LastWakeFailed(failure), noted.and(discarded).err());
    }
    let (image, state, admitted) = match prepare(machine, area, pages, here, read) {
        Ok(prepared) => prepared,
        Err(reason) => {
            let discard = match reason {
                NoWake::Refused(_) => DiscardReason::Refused,
                NoWake::NoImage(_) | NoWake::LastWakeFailed(_) | NoWake::Disabled { .. } => {
                    DiscardReason::ColdBoot
                }
            };
            return Restored::Cold(reason, area.discard_all(discard).err());
        }
    };
    match load_marked(machine, area, memory, &image, admitted.slot(), progress) {
        Ok(loaded) => Restored::Whole {
            state,
            image,
            loaded,
        },
        Err(error) => Restored::Partial(admitted, failure_of(error)),
    }
}

/// Loads memory. If the load mark was set at this start, the load clears it at the end, since
/// memory is then complete or cleared.
// Not inlined, so that this frame begins after the state is read.
#[inline(never)]
fn load_marked<M: Machine>(
    machine: &M,
    area: &mut AnyArea<'_, '_>,
    memory: &mut OsMemory,
    image: &Opened<'_>,
    slot: SlotId,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, LoadError> {
    let mark = |mark| {
        if image.header().seal.is_some() {
            machine.set_load_mark(mark);
        }
    };
    let mut slot = area.slot(slot)?;
    machine.while_loading(|| {
        mark(LoadMark::Set);
        let workers = machine.domain().workers();
        let loaded = load(&mut slot, image, memory, workers, progress);
        mark(LoadMark::Clear);
        loaded
    })
}

/// Runs all steps before the load: checks the image, and admits it.
fn prepare<'w, S, M: Machine>(
    machine: &M,
    area: &mut AnyArea<'_, '_>,
    pages: &'w mut [Page],
    here: &Here<'_>,
    read: impl FnOnce(&Opened<'w>) -> Result<S, StateRefusal>,
) -> Result<(Opened<'w>, S, Admitted), NoWake> {
    let image = area.newest()?;
    check_tries(area, &image)?;
    let (opened, state) = check(area, &image, pages, here, read)?;
    machine.wait_for_power();
    let admitted = area
        .admit(&image)
        .map_err(|error| match (error, image.kind()) {
            (StoreError::PutBack { .. } | StoreError::Spent(_) | StoreError::NotKeptHere(_), _) => {
                Refusal::Over(error)
            }
            (_, ImageKind::Once) => Refusal::NotConsumed(error),
            (_, ImageKind::Snapshot) => Refusal::NotCounted(error),
        })?;
    Ok((opened, state, admitted))
}

fn check<'w, S>(
    area: &mut AnyArea<'_, '_>,
    image: &CommittedImage,
    pages: &'w mut [Page],
    here: &Here<'_>,
    read: impl FnOnce(&Opened<'w>) -> Result<S, StateRefusal>,
) -> Result<(Opened<'w>, S), Refusal> {
    let workspace = Workspace::new(pages, here.os_pages)?;
    let mut slot = area.slot(image.slot())?;
    let opened = open(&mut slot, image.expected(), here, workspace)?;
    let state = read(&opened)?;
    Ok((opened, state))
}

/// Checks that a snapshot has tries left.
fn check_tries(area: &mut AnyArea<'_, '_>, image: &CommittedImage) -> Result<(), NoWake> {
    match area.snapshot() {
        Some((slot, ..)) if slot == image.slot() => {}
        _ => return Ok(()),
    }
    match area.exhausted_snapshot() {
        None => Ok(()),
        Some(attempts) => Err(NoWake::Disabled {
            tries: attempts.tries,
            failure: attempts.failure,
        }),
    }
}

fn failure_of(error: LoadError) -> Failure {
    match error {
        LoadError::DamagedPiece { piece } => Failure::DamagedPiece(piece),
        LoadError::Medium(MediumError::Device { status, .. } | MediumError::Flush(status)) => {
            Failure::Device(status)
        }
        LoadError::Medium(MediumError::TimedOut(ms)) => Failure::TimedOut(ms),
        LoadError::Medium(_) | LoadError::OtherMemory { .. } => Failure::Other(0, 0),
    }
}
