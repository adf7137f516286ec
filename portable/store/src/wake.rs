use core::fmt;

use poorwill_image::{
    Crew, Here, ImageKind, LoadError, Loaded, NoRoom, OpenError, Opened, Progress, StateReader,
    Workspace, load, open,
};
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{OsMemory, Page};
use thiserror::Error;

use crate::admit::Admitted;
use crate::area::{Area, CommittedImage};
use crate::choice::NoImage;
use crate::error::StoreError;
use crate::failure::Failure;
use crate::slot::DiscardReason;

/// Why a machine boots cold that might have slept. Its memory is untouched, and
/// the images in the area have been given up, as far as that was possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoWake<E> {
    /// There is nothing to wake; the usual reason.
    #[error("{0}")]
    NoImage(#[from] NoImage),
    /// The last power-on had an image and could not load it.
    #[error("the image could not be loaded: {0}")]
    LastWakeFailed(Failure),
    /// The snapshot has failed too often in a row to be tried again.
    #[error("{}", Disabled(*tries, *failure))]
    Disabled {
        /// How often.
        tries: u32,
        /// Why the last time, as far as known.
        failure: Option<Failure>,
    },
    /// The image is refused.
    #[error("{0}")]
    Refused(Refusal<E>),
}

/// The words for [`NoWake::Disabled`].
struct Disabled(u32, Option<Failure>);

impl fmt::Display for Disabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disabled(tries, failure) = self;
        write!(
            f,
            "the snapshot is disabled after {tries} wakes in a row that failed"
        )?;
        match failure {
            Some(failure) => write!(f, ", the last one because {failure}"),
            None => f.write_str(": its OS has not said that it is well"),
        }
    }
}

/// Why an image is refused, before any of it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal<E> {
    /// Damaged, forged, or of another machine.
    #[error("{0}")]
    Image(#[from] OpenError),
    /// Its machine state does not fit.
    #[error("{0}")]
    State(E),
    /// More memory than the workspace is for.
    #[error("{0}")]
    Workspace(#[from] NoRoom),
    /// The slot cannot be read.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// It is not to wake: the machine's guard says so.
    #[error("the image must not be loaded: {0}")]
    Over(StoreError),
    /// It could not be marked consumed, so it must not be loaded.
    #[error("the image cannot be marked consumed: {0}")]
    NotConsumed(StoreError),
    /// The try of a snapshot could not be counted.
    #[error("the snapshot's record cannot be written: {0}")]
    NotCounted(StoreError),
}

/// What a power-on came to.
#[allow(
    clippy::large_enum_variant,
    reason = "there is one, and no heap to put it on"
)]
#[derive(Debug)]
pub enum Wake<'w, E> {
    /// Memory is as it was when the machine went to sleep.
    Woken {
        /// The image, for its state.
        image: Opened<'w>,
        /// What was loaded.
        loaded: Loaded,
    },
    /// The machine boots cold. Should giving up its images have failed, or
    /// noting that a failure was named, the second says why.
    Cold(NoWake<E>, Option<StoreError>),
    /// OS memory is half written: only a reset makes a cold boot possible.
    Spoilt(Admitted, Failure),
}

/// Wakes the machine from its sleep area, if it sleeps and may wake. `check`
/// looks at the machine's state before anything is consumed.
pub fn wake<'w, M: Medium, E>(
    area: &mut Area<'_, M>,
    memory: &mut OsMemory,
    pages: &'w mut [Page],
    here: &Here<'_>,
    crew: &dyn Crew,
    check: impl FnOnce(StateReader<'_>) -> Result<(), E>,
    progress: &mut dyn FnMut(Progress),
) -> Wake<'w, E> {
    if let Some((slot, failure)) = area.unreported_failure() {
        let noted = area.mark_reported(slot);
        let discarded = area.discard_all(DiscardReason::ColdBoot);
        return Wake::Cold(NoWake::LastWakeFailed(failure), noted.and(discarded).err());
    }
    match prepare(area, pages, here, check) {
        Ok((image, admitted)) => restore(area, memory, image, admitted, crew, progress),
        Err(reason) => {
            let discard = match reason {
                NoWake::Refused(_) => DiscardReason::Refused,
                NoWake::NoImage(_) | NoWake::LastWakeFailed(_) | NoWake::Disabled { .. } => {
                    DiscardReason::ColdBoot
                }
            };
            Wake::Cold(reason, area.discard_all(discard).err())
        }
    }
}

/// Everything up to the point of no return: the image is checked, and admitted.
fn prepare<'w, M: Medium, E>(
    area: &mut Area<'_, M>,
    pages: &'w mut [Page],
    here: &Here<'_>,
    check: impl FnOnce(StateReader<'_>) -> Result<(), E>,
) -> Result<(Opened<'w>, Admitted), NoWake<E>> {
    let image = area.newest()?;
    check_tries(area, &image)?;
    let refuse = NoWake::Refused;
    let workspace =
        Workspace::new(pages, here.os_pages).map_err(|error| refuse(Refusal::Workspace(error)))?;
    let opened = {
        let mut slot = area
            .slot(image.slot())
            .map_err(|error| refuse(Refusal::Medium(error)))?;
        open(&mut slot, image.expected(), here, workspace)
            .map_err(|error| refuse(Refusal::Image(error)))?
    };
    check(opened.state()).map_err(|error| refuse(Refusal::State(error)))?;
    let admitted = area.admit(&image).map_err(|error| {
        refuse(match (error, image.kind()) {
            (StoreError::PutBack { .. } | StoreError::Spent(_) | StoreError::NotKeptHere(_), _) => {
                Refusal::Over(error)
            }
            (_, ImageKind::Once) => Refusal::NotConsumed(error),
            (_, ImageKind::Snapshot) => Refusal::NotCounted(error),
        })
    })?;
    Ok((opened, admitted))
}

/// Whether a snapshot may be tried once more. Where the configuration cannot be
/// read the default counts.
fn check_tries<M: Medium, E>(
    area: &mut Area<'_, M>,
    image: &CommittedImage,
) -> Result<(), NoWake<E>> {
    let standing = match area.snapshot() {
        Some((slot, _, standing)) if slot == image.slot() => standing,
        _ => return Ok(()),
    };
    let rules = area.configuration().unwrap_or_default().snapshots;
    if rules.allow(standing.tries) {
        return Ok(());
    }
    Err(NoWake::Disabled {
        tries: standing.tries,
        failure: standing.failure,
    })
}

fn restore<'w, M: Medium, E>(
    area: &mut Area<'_, M>,
    memory: &mut OsMemory,
    image: Opened<'w>,
    admitted: Admitted,
    crew: &dyn Crew,
    progress: &mut dyn FnMut(Progress),
) -> Wake<'w, E> {
    let loaded = match area.slot(admitted.slot()) {
        Ok(mut slot) => load(&mut slot, &image, memory, crew, progress),
        Err(error) => Err(error.into()),
    };
    match loaded {
        Ok(loaded) => Wake::Woken { image, loaded },
        Err(error) => Wake::Spoilt(admitted, failure_of(error)),
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
