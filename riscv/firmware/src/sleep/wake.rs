//! Waking (the thesis's chapter 3.3).

use poorwill_image::{Here, ImageKind};
use poorwill_medium::Medium;
use poorwill_medium::nvme::Stop;
use poorwill_memory::PAGE_BYTES;
use poorwill_store::{Admitted, Area, DiscardReason, Failure, NoWake, Wake};
use spin::Mutex;
use thiserror::Error;

use super::disk::{self, DiskError, Work};
use super::os_memory;
use super::progress::Bar;
use super::state::{self, Core, HartState, StateRefusal};
use super::vault::{self, Sealing};
use crate::crew::Crew;
use crate::hart::{self, Task};
use crate::platform::console::say;
use crate::platform::{console, platform, power};
use crate::report;

/// Why the machine boots cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum ColdBoot {
    /// There is no image, or it is refused.
    #[error("{0}")]
    NoWake(#[from] NoWake<StateRefusal>),
    /// No sleep area.
    #[error("no image: {0}")]
    NoArea(DiskError),
    /// Somebody called the snapshot off.
    #[error("a key was pressed, and the snapshot does not wake")]
    Key,
    /// The disk or the area cannot be used.
    #[error("{0}")]
    Disk(DiskError),
}

/// A machine whose memory and devices are as they were; what is left to do is
/// the waking hart's, and lies in [`WAKING`].
#[derive(Debug)]
struct Woken {
    core: Core,
    wake: report::Wake,
}

/// What looking at the sleep area came to.
#[derive(Debug)]
enum Attempt {
    Woken(Woken),
    Cold(ColdBoot),
    /// OS memory is half written: only a reset makes a cold boot possible.
    Spoilt(Admitted, Failure),
}

/// The state that the waking hart takes over.
static WAKING: Mutex<Option<HartState>> = Mutex::new(None);

/// Wakes the machine if it sleeps. Returns the reason if it does not; `began`
/// is `time` at power-on.
pub(crate) fn wake(began: u64) -> ColdBoot {
    let time = &platform().time;
    let sealing = Sealing::at_wake();
    let found = disk::with_area(|work| attempt(work, &sealing), |_| Stop::Handover);
    let woken = match found {
        Ok(Attempt::Woken(woken)) => woken,
        Ok(Attempt::Cold(reason)) => return reason,
        Ok(Attempt::Spoilt(image, failure)) => give_up(image, failure),
        Err(error) => return without_area(error),
    };
    say!(
        "wake loaded_bytes={} ms={} load_ms={} sealed={} generation={}{}",
        woken.wake.loaded_bytes,
        time.milliseconds_since(began),
        woken.wake.load_ms,
        sealing.word(),
        woken.wake.generation,
        match woken.wake.image {
            report::Image::Once => "",
            report::Image::Snapshot { .. } => " mode=snapshot",
        },
    );
    time.set_ticks(woken.core.ticks_now());
    let hart = hart::find(woken.core.hart).expect("the state was checked to name a hart");
    hart.start(Task::Wake(woken.core.resume()))
        .expect("every hart waits to be started");
    hart::this_hart().wait()
}

/// A cold boot because there is no area to look at, or not one: whatever images
/// there are elsewhere, none of them may wake later.
fn without_area(error: DiskError) -> ColdBoot {
    vault::disarm();
    if error.is_absence() {
        return ColdBoot::NoArea(error);
    }
    disk::for_each_area(|area| {
        if let Err(error) = area.discard_all(DiscardReason::ColdBoot) {
            say!("{NOT_DISCARDED}: {error}");
        }
    });
    ColdBoot::Disk(error)
}

/// Ends a wake that failed half-way. Why is written into the image's record, for
/// the next power-on to name: by a controller started anew, as loading that
/// fails leaves it stopped.
fn give_up(image: Admitted, failure: Failure) -> ! {
    let recorded = disk::with_area(
        |work| work.area.record_failure(image, failure),
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

fn attempt(work: Work<'_, '_, '_>, sealing: &Sealing) -> Attempt {
    let Work {
        area,
        pages,
        guards,
    } = work;
    let time = &platform().time;
    let snapshot = match ready_snapshot(area) {
        Ok(snapshot) => snapshot,
        Err(reason) => {
            if let Err(error) = area.discard_all(DiscardReason::ColdBoot) {
                say!("{NOT_DISCARDED}: {error}");
            }
            return Attempt::Cold(reason);
        }
    };
    let mut memory = os_memory();
    let here = Here {
        identity: platform().identity,
        os_pages: memory.pages(),
        trust: sealing.trust(),
        is_clear: platform().memory_is_clear,
    };
    let mut loading_began = time.ticks();
    let mut bar = Bar::new("waking");
    let outcome = poorwill_store::wake(
        area,
        &mut memory,
        pages,
        &here,
        &Crew,
        |records| {
            loading_began = time.ticks();
            state::read(records)?.check_disk(guards)
        },
        &mut |progress| bar.show(progress),
    );
    bar.end();
    let load_ms = time.milliseconds_since(loading_began);
    match outcome {
        Wake::Woken { image, loaded } => {
            let state = state::read(image.state()).expect("it was read before it was loaded");
            let wake = report::Wake {
                image: snapshot.map_or(report::Image::Once, |ready| report::Image::Snapshot {
                    is_proven: ready.is_proven,
                }),
                generation: image.header().generation,
                loaded_bytes: loaded.loaded_pages() * PAGE_BYTES,
                load_ms,
            };
            if !report::woken(state.report, &wake) {
                say!("the OS has moved its device tree: /chosen does not say that it woke");
            }
            platform().interrupts.restore(&state.devices);
            if let Some(id) = &platform().generation_id {
                id.renew();
                id.announce(&platform().interrupts);
            }
            // Not before: an image that is refused is not on trial.
            if let Some(ready) = snapshot {
                platform().begin_trial(wake.generation, ready.trial_ms);
            }
            *WAKING.lock() = Some(state.hart);
            Attempt::Woken(Woken {
                core: state.core,
                wake,
            })
        }
        Wake::Cold(reason, complaint) => {
            if let Some(error) = complaint {
                say!("{NOT_DISCARDED}: {error}");
            }
            Attempt::Cold(reason.into())
        }
        Wake::Spoilt(image, failure) => Attempt::Spoilt(image, failure),
    }
}

/// The complaint where a cold boot leaves images behind that it should not.
const NOT_DISCARDED: &str = "the images in the sleep area cannot be discarded";

/// A snapshot that is about to wake.
#[derive(Clone, Copy, Debug)]
struct Ready {
    /// Its OS has said, behind some wake, that it is well.
    is_proven: bool,
    /// For how many ms it will be on trial.
    trial_ms: u32,
}

/// What is to be done before a snapshot wakes: a reset that has ended its last wake
/// is noted, and somebody at the console may call this one off.
///
/// # Errors
///
/// [`ColdBoot::Key`].
fn ready_snapshot<M: Medium>(area: &mut Area<'_, M>) -> Result<Option<Ready>, ColdBoot> {
    if let Some((trial, ms)) = platform().failed_trial()
        && let Err(error) = area.snapshot_was_reset(trial.generation, ms)
    {
        say!("that the snapshot's wake failed cannot be kept: {error}");
    }
    let Some((_, _, standing)) = area.snapshot() else {
        return Ok(None);
    };
    if area.newest().map(|image| image.kind()) != Ok(ImageKind::Snapshot) {
        return Ok(None);
    }
    let rules = area.configuration().unwrap_or_default().snapshots;
    if rules.key_ms != 0 {
        say!(
            "snapshot: press a key within {} ms to boot cold",
            rules.key_ms
        );
        if console::key_within(rules.key_ms, &platform().time) {
            return Err(ColdBoot::Key);
        }
    }
    Ok(Some(Ready {
        is_proven: standing.proven,
        trial_ms: rules.trial_ms,
    }))
}
