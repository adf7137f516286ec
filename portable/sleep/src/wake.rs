//! Wakes a machine at power-on (the thesis's chapter 3.3).

use poorwill_image::{Here, ImageKind, clear};
use poorwill_medium::nvme::Stop;
use poorwill_memory::{OsMemory, PAGE_BYTES};
use poorwill_store::{Admitted, DiscardReason, Failure, StoreError};

use crate::area::{AnyArea, OpenArea, for_each_area, with_area};
use crate::error::{AreaError, ColdBoot};
use crate::event::{Event, ImageUse, WakeReport};
use crate::machine::{Domain, Job, Machine, Resume, State};
use crate::restore::{Restored, restore};
use crate::sealing::{Sealing, disarm};
use crate::snapshot::{self, Ready};
use crate::state;
use crate::warm_reset::LoadMark;
use crate::work::Work;

/// The result of a power-on.
#[derive(Debug)]
pub enum Woke<R> {
    /// Memory and devices are restored. The waking hart must restore its own state.
    Awake(R),
    /// There is no image, or it is refused: the next stage must be started.
    Cold(ColdBoot),
    /// OS memory is partially restored: the machine must be reset, and then boots cold.
    Reset(Failure),
    /// OS memory held a part of a sealed image. It is cleared, with all files that were loaded for
    /// this start: the machine must be reset.
    Cleared,
}

/// Wakes the machine if it sleeps. `began` is the time of the power-on in ticks. After a cold boot,
/// no older image may wake.
pub fn wake<M: Machine>(
    machine: &M,
    memory: &mut OsMemory,
    work: &mut Work<'_>,
    began: u64,
) -> Woke<Resume<M>> {
    if clear_after_load(machine, memory).is_err() {
        return Woke::Cleared;
    }
    let sealing = Sealing::at_wake(machine);
    let attempt = |open: OpenArea<'_, '_, '_>| attempt(machine, open, memory, &sealing);
    let may_wake = |area: &mut AnyArea<'_, '_>| area.newest().is_ok();
    match with_area(machine, work, may_wake, attempt, |_| Stop::Handover) {
        Ok(Attempt::Woken(resume, wake)) => {
            machine.say(&Event::Woken {
                wake: &wake,
                ms: machine.milliseconds_since(began),
                sealed: sealing.key().is_some(),
            });
            Woke::Awake(resume)
        }
        Ok(Attempt::Cold(reason)) => Woke::Cold(reason),
        Ok(Attempt::Partial(image, failure)) => {
            record_failure(machine, work, image, failure);
            machine.say(&Event::WakeFailed(failure));
            Woke::Reset(failure)
        }
        Err(error) => Woke::Cold(without_area(machine, work, error)),
    }
}

/// OS memory held a part of a sealed image. It is cleared, with all files that were loaded for this
/// start: the machine must be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared;

/// Discards all images, for a start that wakes none: its OS may write to the disks. Snapshots stay.
///
/// # Errors
///
/// [`Cleared`]; the images are not discarded then.
pub fn discard_images<M: Machine>(
    machine: &M,
    memory: &mut OsMemory,
    work: &mut Work<'_>,
) -> Result<(), Cleared> {
    clear_after_load(machine, memory)?;
    disarm(machine);
    for_each_area(machine, work, &mut |area| {
        let had_image = area
            .newest()
            .is_ok_and(|image| image.kind() != ImageKind::Snapshot);
        match area.discard_all(DiscardReason::ColdBoot) {
            Ok(()) if had_image => machine.say(&Event::ImageDiscarded),
            discarded => say_kept(machine, discarded.err()),
        }
    });
    Ok(())
}

/// Clears OS memory if the power was lost while a sealed image was loaded.
fn clear_after_load<M: Machine>(machine: &M, memory: &mut OsMemory) -> Result<(), Cleared> {
    if machine.last_load_mark() == LoadMark::Clear {
        return Ok(());
    }
    clear(memory, machine.domain().workers());
    machine.set_load_mark(LoadMark::Clear);
    machine.say(&Event::Cleared);
    Err(Cleared)
}

/// A cold boot without an area, or with more than one. Images on disks that are not connected may
/// not wake later.
fn without_area<M: Machine>(machine: &M, work: &mut Work<'_>, error: AreaError) -> ColdBoot {
    disarm(machine);
    if error.is_absence() {
        return ColdBoot::NoArea(error);
    }
    for_each_area(machine, work, &mut |area| {
        say_kept(machine, area.discard_all(DiscardReason::ColdBoot).err());
    });
    ColdBoot::Area(error)
}

/// Reports an error of discarding the images, if there was one.
fn say_kept<M: Machine>(machine: &M, complaint: Option<StoreError>) {
    if let Some(error) = complaint {
        machine.say(&Event::NotDiscarded(error));
    }
}

/// Records the failure of a wake in the image's record, for the report of the next power-on. Starts
/// the controller again, because a failed load leaves it stopped.
fn record_failure<M: Machine>(machine: &M, work: &mut Work<'_>, image: Admitted, failure: Failure) {
    let recorded = with_area(
        machine,
        work,
        |_| false,
        |open| open.area.record_failure(image, failure),
        |_| Stop::Handover,
    );
    if let Err(error) = recorded.and_then(|kept| kept.map_err(AreaError::Store)) {
        machine.say(&Event::FailureNotKept(error));
    }
}

/// The result of a wake from the sleep area.
#[derive(Debug)]
enum Attempt<R> {
    Woken(R, WakeReport),
    Cold(ColdBoot),
    Partial(Admitted, Failure),
}

fn attempt<M: Machine>(
    machine: &M,
    open: OpenArea<'_, '_, '_>,
    memory: &mut OsMemory,
    sealing: &Sealing,
) -> Attempt<Resume<M>> {
    match snapshot::ready(machine, open.area) {
        Ok(snapshot) => load(machine, open, snapshot, memory, sealing),
        Err(reason) => {
            let discarded = open.area.discard_all(DiscardReason::ColdBoot);
            say_kept(machine, discarded.err());
            Attempt::Cold(reason)
        }
    }
}

fn here<'s, M: Machine>(machine: &M, memory: &OsMemory, sealing: &'s Sealing) -> Here<'s> {
    Here {
        identity: machine.domain().identity(),
        os_pages: memory.pages(),
        trust: sealing.trust(),
        is_clear: machine.memory_is_clear(),
    }
}

/// Loads the image, which is a `snapshot` or not.
fn load<M: Machine>(
    machine: &M,
    open: OpenArea<'_, '_, '_>,
    snapshot: Option<Ready>,
    memory: &mut OsMemory,
    sealing: &Sealing,
) -> Attempt<Resume<M>> {
    let here = here(machine, memory, sealing);
    let mut began = machine.ticks();
    let restored = restore(
        open.area,
        memory,
        open.workspace,
        &here,
        machine,
        |image| {
            began = machine.ticks();
            state::read(machine, image, open.fingerprints)
        },
        &mut |progress| machine.show(Job::Waking, progress),
    );
    machine.end_show();
    match restored {
        Restored::Whole {
            state,
            image,
            loaded,
        } => {
            let wake = WakeReport {
                image: snapshot.map_or(ImageUse::Once, Ready::image_use),
                generation: image.header().generation,
                loaded_bytes: loaded.loaded_pages() * PAGE_BYTES,
                load_ms: machine.milliseconds_since(began),
            };
            woken(machine, snapshot, state, wake)
        }
        Restored::Cold(reason, complaint) => {
            say_kept(machine, complaint);
            Attempt::Cold(reason.into())
        }
        Restored::Partial(image, failure) => Attempt::Partial(image, failure),
    }
}

fn woken<M: Machine>(
    machine: &M,
    snapshot: Option<Ready>,
    state: State<'_, M>,
    wake: WakeReport,
) -> Attempt<Resume<M>> {
    let resume = machine.domain().restore(state, &wake);
    // The trial begins only now: a refused image is not on trial.
    if let Some(ready) = snapshot {
        ready.begin(machine, wake.generation);
    }
    Attempt::Woken(resume, wake)
}
