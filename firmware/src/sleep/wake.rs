//! Waking (the thesis's chapter 3.3).

use poorwill_image::{LoadError, NoRoom, OpenError, Workspace, load, open};
use poorwill_medium::nvme::Stop;
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_store::{Area, Consumed, DiscardReason, Failure, NoImage, SlotId, StoreError};
use spin::Mutex;
use thiserror::Error;

use super::disk::{self, DiskError};
use super::os_memory;
use super::progress::Bar;
use super::state::{self, Core, HartState, StateRefusal};
use crate::hart::{self, Task};
use crate::platform::console::say;
use crate::platform::{platform, power};

/// Why the machine boots cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ColdBoot {
    /// The usual reason.
    #[error("{0}")]
    NoImage(#[from] NoImage),
    /// No sleep area.
    #[error("no image: {0}")]
    NoArea(DiskError),
    /// The disk or the area cannot be used.
    #[error("{0}")]
    Disk(DiskError),
    /// The last power-on had an image and could not load it.
    #[error("the image could not be loaded: {0}")]
    LastWakeFailed(Failure),
    /// The image is refused.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// Why an image is refused, before any of it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// Damaged, or of another machine.
    #[error("{0}")]
    Image(#[from] OpenError),
    /// Its machine state does not fit.
    #[error("{0}")]
    State(#[from] StateRefusal),
    /// More memory than the firmware can keep track of.
    #[error("{0}")]
    Workspace(#[from] NoRoom),
    /// The slot cannot be read.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// It could not be marked consumed, so it must not be loaded.
    #[error("the image cannot be marked consumed: {0}")]
    NotConsumed(StoreError),
}

/// A machine whose memory and devices are as they were; what is left to do is
/// the waking hart's, and lies in [`WAKING`].
#[derive(Debug)]
struct Woken {
    core: Core,
    loaded_bytes: u64,
    load_ms: u64,
}

/// What looking at the sleep area came to.
#[derive(Debug)]
enum Attempt {
    Woken(Woken),
    Cold(ColdBoot),
    /// OS memory is half written: only a reset makes a cold boot possible.
    Spoilt(Consumed, Failure),
}

/// The state that the waking hart takes over.
static WAKING: Mutex<Option<HartState>> = Mutex::new(None);

/// Wakes the machine if it sleeps. Returns the reason if it does not; `began`
/// is `time` at power-on.
pub(crate) fn wake(began: u64) -> ColdBoot {
    let time = &platform().time;
    #[expect(
        clippy::redundant_closure,
        reason = "the function itself is not general enough over the disk's lifetimes"
    )]
    let woken = match disk::with_area(|area, pages| attempt(area, pages), |_| Stop::Handover) {
        Ok(Attempt::Woken(woken)) => woken,
        Ok(Attempt::Cold(reason)) => return reason,
        Ok(Attempt::Spoilt(image, failure)) => give_up(image, failure),
        Err(error) if error.is_absence() => return ColdBoot::NoArea(error),
        Err(error) => {
            disk::for_each_area(|area| discard_images(area, DiscardReason::ColdBoot));
            return ColdBoot::Disk(error);
        }
    };
    say!(
        "wake loaded_bytes={} ms={} load_ms={}",
        woken.loaded_bytes,
        time.milliseconds_in(time.ticks().saturating_sub(began)),
        woken.load_ms,
    );
    time.set_ticks(woken.core.ticks_now());
    let hart = hart::find(woken.core.hart).expect("the state was checked to name a hart");
    hart.start(Task::Wake(woken.core.resume()))
        .expect("every hart waits to be started");
    hart::this_hart().wait()
}

/// Ends a wake that failed half-way. Why is written into the image's record, for
/// the next power-on to name: by a controller started anew, as loading that
/// fails leaves it stopped.
fn give_up(image: Consumed, failure: Failure) -> ! {
    let recorded = disk::with_area(
        |area, _| area.record_failure(image, failure),
        |_| Stop::Handover,
    );
    match recorded {
        Ok(Ok(())) => {}
        Ok(Err(error)) => say!("why the wake failed cannot be kept: {error}"),
        Err(error) => say!("why the wake failed cannot be kept: {error}"),
    }
    say!("wake failed: {failure}; reset");
    power::give_up()
}

/// Puts back what is the calling hart's own; run as it starts for a wake.
pub(crate) fn restore_hart() {
    if let Some(state) = WAKING.lock().take() {
        state.restore();
    }
}

fn attempt<M: Medium>(area: &mut Area<'_, M>, pages: &mut [Page]) -> Attempt {
    let cold = match try_wake(area, pages) {
        Ok(attempt) => return attempt,
        Err(reason) => reason,
    };
    let reason = match cold {
        ColdBoot::Refused(_) => DiscardReason::Refused,
        _ => DiscardReason::ColdBoot,
    };
    discard_images(area, reason);
    Attempt::Cold(cold)
}

/// At a cold boot the OS goes on without the images in the area, whatever the
/// reason: none that was made before may wake later on, over disks that have
/// changed meanwhile.
fn discard_images<M: Medium>(area: &mut Area<'_, M>, reason: DiscardReason) {
    if let Err(error) = area.discard_all(reason) {
        say!("the images in the sleep area cannot be discarded: {error}");
    }
}

fn try_wake<M: Medium>(area: &mut Area<'_, M>, pages: &mut [Page]) -> Result<Attempt, ColdBoot> {
    if let Some((slot, failure)) = area.unreported_failure() {
        return Err(report(area, slot, failure));
    }
    let image = area.newest()?;
    let mut memory = os_memory();
    let workspace = Workspace::new(pages, memory.pages()).map_err(Refusal::from)?;
    let opened = {
        let mut slot = area.slot(image.slot()).map_err(Refusal::from)?;
        let identity = &platform().identity;
        open(
            &mut slot,
            image.header_checksum(),
            identity,
            memory.pages(),
            workspace,
        )
        .map_err(Refusal::from)?
    };
    let state = state::read(opened.state()).map_err(Refusal::from)?;
    let consumed = area.consume(&image).map_err(Refusal::NotConsumed)?;

    let time = &platform().time;
    let began = time.ticks();
    let mut bar = Bar::new("waking");
    let loaded = {
        let mut slot = area.slot(image.slot()).map_err(Refusal::from)?;
        load(&mut slot, &opened, &mut memory, &mut |progress| {
            bar.show(progress)
        })
    };
    bar.end();
    match loaded {
        Ok(loaded) => {
            platform().interrupts.restore(&state.devices);
            *WAKING.lock() = Some(state.hart);
            Ok(Attempt::Woken(Woken {
                core: state.core,
                loaded_bytes: loaded.loaded_pages() * PAGE_BYTES,
                load_ms: time.milliseconds_in(time.ticks().saturating_sub(began)),
            }))
        }
        Err(error) => Ok(Attempt::Spoilt(consumed, failure_of(error))),
    }
}

/// The failure of the last power-on's wake, named once.
fn report<M: Medium>(area: &mut Area<'_, M>, slot: SlotId, failure: Failure) -> ColdBoot {
    if let Err(error) = area.mark_reported(slot) {
        say!("slot {slot}: {error}");
    }
    ColdBoot::LastWakeFailed(failure)
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
