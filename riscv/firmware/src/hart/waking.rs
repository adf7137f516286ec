//! The state of the sleeping hart, and the wake vector, in an image or in the record of a cut; and
//! their restore at the wake.

use poorwill_drivers::ShutDomains;
use poorwill_hart::HartContext;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_memory::EntryPoint;
use poorwill_sleep::{Core, Moment, StateRefusal};
use poorwill_state::banks::WakingBanks;
use poorwill_state::sleeper;
use spin::Mutex;

use crate::hart::this_hart;
use crate::platform::bus::WakingDevices;
use crate::platform::platform;

/// What the waking hart restores: its own state, then DOMAINCFG of the OS's APLICs, which are shut,
/// then the devices.
type Waking = (HartContext, Option<ShutDomains>, WakingDevices);

/// The state of the hart that wakes, and its banks, which are read before it.
struct WakingHart {
    waking: Mutex<Option<Waking>>,
    banks: Mutex<WakingBanks>,
}

static WAKING: WakingHart = WakingHart {
    waking: Mutex::new(None),
    banks: Mutex::new(WakingBanks::new()),
};

/// Stores the state of a hart for its wake. The hart opens its interrupt `domains` only after its
/// interrupt file is restored: a message before that would be lost. It restores `devices` last,
/// since these interrupt at once, and the firmware prints until then.
pub(crate) fn will_wake(hart: HartContext, domains: Option<ShutDomains>, devices: WakingDevices) {
    *WAKING.waking.lock() = Some((hart, domains, devices));
}

/// Restores the calling hart's own state, at its start for a wake.
pub(crate) fn restore_hart() {
    // Not moved: a hart's stack is small.
    let mut waking = WAKING.waking.lock();
    if let Some((context, domains, devices)) = waking.as_ref() {
        let hart = this_hart().access();
        context.restore(&hart);
        WAKING.banks.lock().put_back(&hart);
        let controllers = platform().interrupts.shared();
        (domains.iter()).for_each(|domains| controllers.reopen(domains));
        devices.restore();
    }
    *waking = None;
}

/// Writes the calling hart's state and its OS's wake vector.
///
/// # Errors
///
/// [`StateError::NoRoom`], also for vector registers longer than an image can have.
// Not inlined: a context is large, and its frame must end before the capture of the controllers.
#[inline(never)]
pub(crate) fn capture(vector: EntryPoint, into: &mut StateWriter<'_>) -> Result<(), StateError> {
    let clock = &platform().time;
    // This includes an interrupt that another hart sent before it stopped.
    this_hart().take_requests();
    let core = |deadline| {
        let now = Moment {
            ticks: clock.ticks(),
            now_ns: clock.now_ns(),
        };
        Core::new(this_hart().id(), vector, now, deadline)
    };
    sleeper::capture(&this_hart().access(), core, into)
}

/// Takes the hart's state and the wake vector out of a machine's state, and checks them. Restores
/// nothing.
///
/// # Errors
///
/// [`StateRefusal`].
pub(crate) fn read(sections: &mut StateSections<'_>) -> Result<(Core, HartContext), StateRefusal> {
    let core = Core::read(sections)?;
    check(&core)?;
    let mut banks = WAKING.banks.lock();
    let mut hart = sleeper::read(&this_hart().access(), &mut banks, sections)?;
    hart.deadline = Some(core.deadline());
    Ok((core, hart))
}

/// Checks that the hart exists, and that the OS may execute at the wake vector.
fn check(core: &Core) -> Result<(), StateRefusal> {
    let hart = crate::hart::find(core.hart()).ok_or(StateRefusal::NoHart(core.hart()))?;
    let address = core.vector().address;
    match hart.domain().executable(address) {
        Ok(_) => Ok(()),
        Err(_) => Err(StateRefusal::WakeVector(address)),
    }
}
