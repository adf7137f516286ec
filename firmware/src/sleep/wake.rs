//! Waking (the thesis's chapter 3.3).

use poorwill_image::Here;
use poorwill_medium::Medium;
use poorwill_medium::nvme::Stop;
use poorwill_memory::{PAGE_BYTES, Page};
use poorwill_store::{Area, Consumed, DiscardReason, Failure, NoWake, Wake};
use spin::Mutex;
use thiserror::Error;

use super::disk::{self, DiskError};
use super::os_memory;
use super::progress::Bar;
use super::state::{self, Core, HartState, StateRefusal};
use super::vault::{self, Sealing};
use crate::crew::Crew;
use crate::hart::{self, Task};
use crate::platform::console::say;
use crate::platform::{platform, power};
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
    /// The disk or the area cannot be used.
    #[error("{0}")]
    Disk(DiskError),
}

/// A machine whose memory and devices are as they were; what is left to do is
/// the waking hart's, and lies in [`WAKING`].
#[derive(Debug)]
struct Woken {
    core: Core,
    generation: u64,
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
    let sealing = Sealing::at_wake();
    let found = disk::with_area(
        |area, pages| attempt(area, pages, &sealing),
        |_| Stop::Handover,
    );
    let woken = match found {
        Ok(Attempt::Woken(woken)) => woken,
        Ok(Attempt::Cold(reason)) => return reason,
        Ok(Attempt::Spoilt(image, failure)) => give_up(image, failure),
        Err(error) => return without_area(error),
    };
    say!(
        "wake loaded_bytes={} ms={} load_ms={} sealed={} generation={}",
        woken.loaded_bytes,
        time.milliseconds_in(time.ticks().saturating_sub(began)),
        woken.load_ms,
        sealing.word(),
        woken.generation,
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
            say!("the images in the sleep area cannot be discarded: {error}");
        }
    });
    ColdBoot::Disk(error)
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

fn attempt<M: Medium>(area: &mut Area<'_, M>, pages: &mut [Page], sealing: &Sealing) -> Attempt {
    let time = &platform().time;
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
            state::read(records).map(drop)
        },
        &mut |progress| bar.show(progress),
    );
    bar.end();
    let load_ms = time.milliseconds_in(time.ticks().saturating_sub(loading_began));
    match outcome {
        Wake::Woken { image, loaded } => {
            let state = state::read(image.state()).expect("it was read before it was loaded");
            let generation = image.header().generation;
            let loaded_bytes = loaded.loaded_pages() * PAGE_BYTES;
            if !report::woken(state.report, generation, loaded_bytes, load_ms) {
                say!("the OS has moved its device tree: /chosen does not say that it woke");
            }
            platform().interrupts.restore(&state.devices);
            if let Some(id) = &platform().generation_id {
                id.renew();
                id.announce(&platform().interrupts);
            }
            *WAKING.lock() = Some(state.hart);
            Attempt::Woken(Woken {
                core: state.core,
                generation,
                loaded_bytes,
                load_ms,
            })
        }
        Wake::Cold(reason, complaint) => {
            if let Some(error) = complaint {
                say!("the images in the sleep area cannot be discarded: {error}");
            }
            Attempt::Cold(reason.into())
        }
        Wake::Spoilt(image, failure) => Attempt::Spoilt(image, failure),
    }
}
