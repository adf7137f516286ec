//! The run of a sleep or a wake, and its end.

use arrayvec::ArrayVec;
use poorwill_arch::interruptible;
use poorwill_devicetree::MAX_DOMAINS;
use poorwill_image::PowerFails;
use poorwill_memory::EntryPoint;
use poorwill_sleep::cut::CutReason;
use poorwill_sleep::{Cleared, ColdStart, NoSleep, Quiesced, Slept, Stopped, Woke};

use super::iommus::Phase;
use super::machine::Firmware;
use super::release::{StartCold, release};
use crate::cut;
use crate::domain::{self, dma};
use crate::hart;
use crate::hart::domain_state::{DomainStopped, NoneStarted};
use crate::hart::memory::{all_memory, memories, os_memory, work};
use crate::hart::resting;
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power::{self, PowerOff};

/// Puts the machine to sleep, with all domains that do. Returns only if the machine wakes without a
/// power-off, before any of its domains does. The calling hart's OS continues at `vector`.
///
/// # Errors
///
/// [`NoSleep`]: the machine was to be saved at once, and could not.
pub(super) fn sleep_machine(vector: EntryPoint) -> Result<(), NoSleep> {
    let asleep = || domain::all().filter_map(DomainStopped::asleep);
    let mut memories = memories();
    memories.clear();
    asleep().for_each(|stopped| memories.push(os_memory(&stopped)));
    let mut quiesced: ArrayVec<_, MAX_DOMAINS> = (asleep().zip(&mut *memories))
        .map(|(stopped, memory)| {
            let domain = stopped.domain();
            Quiesced::new(domain, memory, resting::vector(domain))
        })
        .collect();
    let firmware = Firmware::new(Phase::Sleep);
    // SAFETY: the sleep holds nothing that the OS's timer needs.
    match unsafe {
        interruptible(0, || {
            poorwill_sleep::sleep(&firmware, &mut quiesced, vector, &mut work())
        })
    } {
        Slept::Awake => Ok(()),
        Slept::Refused(error) => Err(error),
        Slept::PowerFails { has_slept, sealed } => {
            cut::leave_sealed(sealed);
            match has_slept {
                true => Ok(()),
                false => Err(NoSleep::PowerFails(PowerFails)),
            }
        }
        Slept::Asleep(committed) => {
            #[cfg(feature = "stack-marks")]
            hart::say_stacks(None);
            cut::power_off(PowerOff::Asleep(committed))
        }
        Slept::Cut(committed) => power::switch_off(PowerOff::Cut(committed)),
        Slept::InDoubt(_) => cut::power_off(PowerOff::InDoubt),
    }
}

/// Discards all images, for a start that wakes none. The disks must reach memory.
pub(crate) fn discard_images(none: &NoneStarted) {
    // An image whose load did not end may have left its contents in any domain's memory.
    let mut memory = all_memory(none);
    let firmware = Firmware::new(Phase::Discard);
    // SAFETY: no OS has a timer that could fire.
    let discarded = unsafe {
        interruptible(0, || {
            poorwill_sleep::discard_images(&firmware, &mut memory, &mut work())
        })
    };
    if let Err(Cleared) = discarded {
        power::restart()
    }
}

/// Discards the images on the domains' disks, if the search for a set has left these out.
fn discard_others(none: &NoneStarted) {
    if !platform().keeps_sets() {
        return;
    }
    if let Err(error) = dma::open_for(|| discard_images(none)) {
        say!("{error}");
        power::restart()
    }
}

/// Wakes the machine if it sleeps; else returns the reasons. `began` is `time` at power-on.
/// `no_cut`: why no cut was resumed. `start_cold` starts a domain beside others that have woken.
// Not inlined: its frame must not lie below the start on the deep stack.
#[inline(never)]
pub(crate) fn wake(
    began: u64,
    none: &NoneStarted,
    no_cut: Option<CutReason>,
    start_cold: StartCold<'_>,
) -> ColdStart {
    let woke = {
        let mut memories = memories();
        memories.clear();
        domain::all().for_each(|domain| memories.push(os_memory(&none.of(domain))));
        let mut stopped: ArrayVec<_, MAX_DOMAINS> = (domain::all().zip(&mut *memories))
            .map(|(domain, memory)| Stopped::new(domain, memory))
            .collect();
        let firmware = Firmware::starting(start_cold);
        // SAFETY: the wake holds nothing that the OS's timer needs.
        unsafe {
            interruptible(0, || {
                poorwill_sleep::wake(&firmware, &mut stopped, &mut work(), began)
            })
        }
    };
    let last = match woke {
        Woke::Awake(last) => last,
        Woke::Cold(start) => {
            discard_others(none);
            return start;
        }
        Woke::Reset(_) => power::restart(),
        Woke::Cleared => {
            // The machine restarts now, and the next start boots cold and reports the reason.
            if let Some(reason) = no_cut {
                cut::note(reason);
            }
            power::restart()
        }
    };
    #[cfg(feature = "irqs-off")]
    power::say_irqs_off();
    release(domain::last(), last, start_cold);
    hart::this_hart().wait()
}
