//! Wakes a machine at power-on (the thesis's chapter 3.3).

use arrayvec::ArrayVec;
use poorwill_image::{ImageKind, clear};
use poorwill_medium::nvme::Stop;
use poorwill_memory::checksum::name_hash;
use poorwill_memory::{OsMemory, Page};
use poorwill_store::{
    Admitted, CommittedImage, DiscardReason, Failure, MAX_PARTS, RecordFormat, StoreError,
};

use crate::area::{AnyArea, OpenArea, for_each_area, with_area};
use crate::chain::Stopped;
use crate::cold_start::ColdStart;
use crate::error::{AreaError, ColdBoot, NoWake, Refusal};
use crate::event::{Event, ImageUse, WakeReport};
use crate::machine::{Domain, Machine, Outcome, Resume};
use crate::restore::{NotRestored, Restoring, Source};
use crate::sealing::{Sealing, disarm};
use crate::snapshot::{self, Ready};
use crate::warm_reset::LoadMark;
use crate::woken::Woken;
use crate::work::Work;

/// The result of a power-on.
#[derive(Debug)]
pub enum Woke<R> {
    /// Memory and devices are restored. All domains but the last one go on already. Of that one the
    /// waking hart must restore its own state; in a set it may start cold, or end.
    Awake(Outcome<R>),
    /// There is no image, or it is refused: the next stages must be started.
    Cold(ColdStart),
    /// OS memory is partially restored: the machine must be reset, and then boots cold.
    Reset(Failure),
    /// OS memory held a part of a sealed image. It is cleared, with all files that were loaded for
    /// this start: the machine must be reset.
    Cleared,
}

/// Wakes the machine if it sleeps. `domains` are all of its domains, in the order of their wakes.
/// `began` is the time of the power-on in ticks. After a cold boot, no older image may wake.
///
/// # Panics
///
/// If there is no domain.
pub fn wake<M: Machine>(
    machine: &M,
    domains: &mut [Stopped<'_, M::Domain>],
    work: &mut Work<'_>,
    began: u64,
) -> Woke<Resume<M>> {
    if machine.only_retains() {
        return Woke::Cold(ColdBoot::Domains.into());
    }
    let clears = domains.iter_mut().map(|stopped| &mut *stopped.memory);
    if clear_after_load(machine, clears).is_err() {
        return Woke::Cleared;
    }
    let sealing = Sealing::at_wake(machine);
    let mut woken = Woken::new(domains.len(), began);
    let attempt =
        |open: OpenArea<'_, '_, '_>| attempt(machine, open, &mut *domains, &sealing, &mut woken);
    let may_wake = |area: &mut AnyArea<'_, '_>| {
        machine.format() == RecordFormat::Image && area.newest().is_ok()
    };
    match with_area(machine, work, may_wake, attempt, |_| Stop::Handover) {
        Ok(Attempt::Woken(set)) => {
            if let (Some(set), Some(_)) = (set, woken.failures().next()) {
                record(machine, work, |area| {
                    record_parts(area, &set, domains, &woken)
                });
            }
            let names = domains.iter().map(|stopped| stopped.domain.name());
            let names: ArrayVec<&str, MAX_PARTS> = names.collect();
            woken.say(machine, &names, sealing.key().is_some());
            Woke::Awake(woken.last)
        }
        Ok(Attempt::Cold(start)) => Woke::Cold(start),
        Ok(Attempt::Partial(image, failure)) => {
            record(machine, work, |area| area.record_failure(image, failure));
            machine.say(&Event::WakeFailed(failure));
            Woke::Reset(failure)
        }
        Err(error) => Woke::Cold(without_area(machine, work, error).into()),
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
    clear_after_load(machine, [memory])?;
    disarm(machine);
    for_each_area(machine, work, &mut |area| {
        let is_there = |format| {
            let image = area.newest_in(format);
            image.is_ok_and(|image| image.kind() != ImageKind::Snapshot)
        };
        let had_image = is_there(RecordFormat::Image) || is_there(RecordFormat::Set);
        match area.discard_all(DiscardReason::ColdBoot) {
            Ok(()) if had_image => machine.say(&Event::ImageDiscarded),
            discarded => say_kept(machine, discarded.err()),
        }
    });
    Ok(())
}

/// Clears OS memory if the power was lost while a sealed image was loaded.
fn clear_after_load<'m, M: Machine>(
    machine: &M,
    memories: impl IntoIterator<Item = &'m mut OsMemory>,
) -> Result<(), Cleared> {
    if machine.last_load_mark() == LoadMark::Clear {
        return Ok(());
    }
    for memory in memories {
        clear(memory, machine.workers());
    }
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

/// Records the failure of a wake in the area, for the report of the next power-on. Starts the
/// controller again, because a failed load may leave it stopped.
fn record<M: Machine>(
    machine: &M,
    work: &mut Work<'_>,
    job: impl FnOnce(&mut AnyArea<'_, '_>) -> Result<(), StoreError>,
) {
    let recorded = with_area(
        machine,
        work,
        |_| false,
        |open| job(open.area),
        |_| Stop::Handover,
    );
    if let Err(error) = recorded.and_then(|kept| kept.map_err(AreaError::Store)) {
        machine.say(&Event::FailureNotKept(error));
    }
}

/// Records why domains of an admitted set did not wake.
fn record_parts<D: Domain>(
    area: &mut AnyArea<'_, '_>,
    set: &Admitted,
    domains: &[Stopped<'_, D>],
    woken: &Woken<D::Resume>,
) -> Result<(), StoreError> {
    for (index, failure) in woken.failures() {
        if let Some(Source::Part(part, _)) = Source::of(area, set.slot(), domains[index].domain) {
            area.record_part_failure(set, part, failure)?;
        }
    }
    Ok(())
}

/// The result of a wake from the sleep area.
#[derive(Debug)]
enum Attempt {
    /// With the proof that the set was consumed.
    Woken(Option<Admitted>),
    Cold(ColdStart),
    Partial(Admitted, Failure),
}

fn attempt<M: Machine>(
    machine: &M,
    open: OpenArea<'_, '_, '_>,
    domains: &mut [Stopped<'_, M::Domain>],
    sealing: &Sealing,
    woken: &mut Woken<Resume<M>>,
) -> Attempt {
    match snapshot::ready(machine, open.area) {
        Ok(snapshot) => load(machine, open, snapshot, domains, sealing, woken),
        Err(reason) => {
            let discarded = open.area.discard_all(DiscardReason::ColdBoot);
            say_kept(machine, discarded.err());
            Attempt::Cold(reason.into())
        }
    }
}

/// Loads the image, which is a `snapshot` or not, or the set.
fn load<M: Machine>(
    machine: &M,
    open: OpenArea<'_, '_, '_>,
    snapshot: Option<Ready>,
    domains: &mut [Stopped<'_, M::Domain>],
    sealing: &Sealing,
    woken: &mut Woken<Resume<M>>,
) -> Attempt {
    let OpenArea {
        area,
        workspace,
        fingerprints,
    } = open;
    let image = match committed(area) {
        Ok(image) => image,
        Err(reason) => return cold(machine, area, domains, reason),
    };
    let mut restoring = Restoring {
        machine,
        sealing,
        image,
        image_use: snapshot.map_or(ImageUse::Once, Ready::image_use),
        fingerprints: fingerprints.map(|partitions| &*partitions),
        admitted: None,
    };
    let Some((first, source)) = Source::first(area, image.slot(), domains) else {
        return cold(machine, area, domains, Refusal::NoDomain.into());
    };
    let restored = restoring.restore(area, source, &mut domains[first], workspace);
    let (resume, wake) = match (restored, restoring.admitted.take()) {
        (Ok(restored), admitted) => {
            restoring.admitted = admitted;
            restored
        }
        (Err(NotRestored::Partial(failure)), Some(admitted)) => {
            return Attempt::Partial(admitted, failure);
        }
        (Err(NotRestored::Refused(refusal)), _) => {
            return cold(machine, area, domains, refusal.into());
        }
        (Err(NotRestored::Partial(_)), None) => unreachable!("a load follows the admission"),
    };
    // The trial begins only now: a refused image is not on trial.
    if let Some(ready) = snapshot {
        ready.begin(machine, wake.generation);
    }
    machine.continue_time(&resume);
    woken.add(
        machine,
        (first, domains[first].domain),
        Outcome::Wakes((resume, wake)),
    );
    for index in (0..domains.len()).filter(|index| *index != first) {
        let outcome = restore_next(&mut restoring, area, &mut domains[index], workspace);
        woken.add(machine, (index, domains[index].domain), outcome);
    }
    Attempt::Woken(restoring.admitted)
}

/// Restores a domain of a set after the first one. Its failure does not concern the others.
#[inline(never)]
fn restore_next<M: Machine>(
    restoring: &mut Restoring<'_, M>,
    area: &mut AnyArea<'_, '_>,
    stopped: &mut Stopped<'_, M::Domain>,
    pages: &mut [Page],
) -> Outcome<(Resume<M>, WakeReport)> {
    let Some(source) = Source::of(area, restoring.image.slot(), stopped.domain) else {
        return Outcome::Cold(ColdBoot::NoPart);
    };
    match restoring.restore(area, source, stopped, pages) {
        Ok(restored) => Outcome::Wakes(restored),
        Err(NotRestored::Refused(refusal)) => Outcome::Cold(NoWake::from(refusal).into()),
        Err(NotRestored::Partial(failure)) => Outcome::Ended(failure),
    }
}

/// The image or the set that may wake.
fn committed(area: &mut AnyArea<'_, '_>) -> Result<CommittedImage, NoWake> {
    if let Some((_, failure)) = area.unreported_failure() {
        return Err(NoWake::LastWakeFailed(failure));
    }
    let image = area.newest()?;
    check_tries(area, &image)?;
    Ok(image)
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

/// Discards the area's images, and marks each failure as reported.
fn cold<M: Machine>(
    machine: &M,
    area: &mut AnyArea<'_, '_>,
    domains: &[Stopped<'_, M::Domain>],
    reason: NoWake,
) -> Attempt {
    let mut start = ColdStart::from(ColdBoot::from(reason));
    name_failures(machine, area, domains, &mut start);
    let whole = area.unreported_failure().map(|(slot, _)| slot);
    let mut parts = area.unreported_part_failures().map(|(slot, ..)| slot);
    let failed = whole.or(parts.next());
    drop(parts);
    let noted = failed.map_or(Ok(()), |slot| area.mark_reported(slot));
    let discard = match reason {
        NoWake::Refused(_) => DiscardReason::Refused,
        NoWake::NoImage(_) | NoWake::LastWakeFailed(_) | NoWake::Disabled { .. } => {
            DiscardReason::ColdBoot
        }
    };
    say_kept(machine, noted.and(area.discard_all(discard)).err());
    Attempt::Cold(start)
}

/// Names the domains that did not wake with the others at the last wake. Each gets its failure as
/// the reason of its cold boot.
fn name_failures<M: Machine>(
    machine: &M,
    area: &AnyArea<'_, '_>,
    domains: &[Stopped<'_, M::Domain>],
    start: &mut ColdStart,
) {
    for (index, stopped) in domains.iter().enumerate() {
        let domain = stopped.domain.name();
        let own = name_hash(domain);
        let mut failures = area.unreported_part_failures();
        if let Some((.., failure)) = failures.find(|(_, name_hash, _)| *name_hash == own) {
            start.fail(index, failure);
            let reason = start.of(index);
            machine.say(&Event::DomainCold { domain, reason });
        }
    }
}
