//! The run of a sleep or a wake, and its end.

use poorwill_arch::interruptible;
use poorwill_hart::Task;
use poorwill_image::PowerFails;
use poorwill_memory::EntryPoint;
use poorwill_sleep::cut::CutReason;
use poorwill_sleep::{Cleared, ColdBoot, NoSleep};
use poorwill_sleep::{Quiesced, Slept, Woke};

use super::iommus::Phase;
use super::machine::Firmware;
use crate::cut;
use crate::domain::{dma, report};
use crate::hart;
use crate::hart::domain_state::{DomainStopped, NoneStarted};
use crate::hart::memory::{all_memory, os_memory, work};
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power::{self, PowerOff};

/// Puts the machine to sleep. Returns only if the machine wakes without a power-off, before any of
/// its domains does.
///
/// # Errors
///
/// [`NoSleep`]: the machine was to be saved at once, and could not.
pub(super) fn sleep_machine(
    vector: EntryPoint,
    stopped: &DomainStopped<'_>,
) -> Result<(), NoSleep> {
    let mut memory = os_memory(stopped);
    let quiesced = Quiesced::new(&mut memory, vector);
    // SAFETY: the sleep holds nothing that the OS's timer needs.
    match unsafe {
        interruptible(0, || {
            poorwill_sleep::sleep(&Firmware::new(Phase::Sleep), quiesced, &mut work())
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
            hart::say_stacks();
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

/// Discards the images on the disks of domains, which have searched none of them yet: their OSes
/// start cold.
fn discard_others() {
    if !dma::has_own() {
        return;
    }
    let none = NoneStarted::find().expect("no domain has started");
    if let Err(error) = dma::open_for(|| discard_images(&none)) {
        say!("{error}");
        power::restart()
    }
}

/// Wakes the machine if it sleeps; else returns the reason. `began` is `time` at power-on.
/// `no_cut`: why no cut was resumed.
pub(crate) fn wake(began: u64, stopped: &DomainStopped<'_>, no_cut: Option<CutReason>) -> ColdBoot {
    let woke = {
        let mut memory = os_memory(stopped);
        // SAFETY: the wake holds nothing that the OS's timer needs.
        unsafe {
            interruptible(0, || {
                poorwill_sleep::wake(
                    &Firmware::new(Phase::Start),
                    &mut memory,
                    &mut work(),
                    began,
                )
            })
        }
    };
    let core = match woke {
        Woke::Awake(core) => core,
        Woke::Cold(reason) => {
            discard_others();
            return reason;
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
    report::tell_log(stopped.domain());
    let time = &platform().time;
    time.set_ticks(core.ticks_at(time.now_ns(), |slept_ns| time.ticks_in(slept_ns)));
    let hart = hart::find(core.hart()).expect("the check of the state found the hart");
    hart.domain().run();
    hart.start(Task::Wake(core.vector()))
        .expect("every hart waits for its start");
    hart::this_hart().wait()
}
