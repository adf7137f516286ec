//! The state of the sleeping hart, and the wake vector, in an image or in the record of a cut; and
//! their restore at the wake.

use poorwill_hart::HartContext;
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_memory::EntryPoint;
use poorwill_sleep::{Core, Moment, StateRefusal};
use poorwill_state::sleeper;

use crate::domain::LiveDomain;
use crate::domain::waking::WakingState;
use crate::hart::{self, this_hart};
use crate::platform::platform;

/// Stores the state of a domain's hart for its wake. The hart opens its interrupt controllers only
/// after its interrupt file is restored: a message before that would be lost. It restores devices
/// last, since these interrupt at once, and the firmware prints until then.
pub(crate) fn will_wake(domain: &LiveDomain, state: WakingState) {
    *domain.waking.state.lock() = Some(state);
}

/// Restores the calling hart's own state, at its start for a wake.
pub(crate) fn restore_hart() {
    let own = this_hart();
    let domain = own.domain();
    // Not moved: a hart's stack is small.
    let mut waking = domain.waking.state.lock();
    if let Some((context, domains, devices)) = waking.as_ref() {
        let hart = own.access();
        context.restore(&hart);
        domain.waking.banks.lock().put_back(&hart);
        let controllers = platform().interrupts.of(domain.number());
        (domains.iter()).for_each(|domains| controllers.reopen(domains));
        devices.restore();
    }
    *waking = None;
}

/// The moment now.
pub(crate) fn now() -> Moment {
    let clock = &platform().time;
    Moment {
        ticks: clock.ticks(),
        now_ns: clock.now_ns(),
    }
}

/// Writes the calling hart's state and its OS's wake vector. It sleeps at this moment.
///
/// # Errors
///
/// [`StateError::NoRoom`], also for vector registers longer than an image can have.
// Not inlined: a context is large, and its frame must end before the capture of the controllers.
#[inline(never)]
pub(crate) fn capture(
    vector: EntryPoint,
    at: Moment,
    into: &mut StateWriter<'_>,
) -> Result<(), StateError> {
    // This includes an interrupt that another hart sent before it stopped.
    this_hart().take_requests();
    let core = |deadline| Core::new(this_hart().id(), vector, at, deadline);
    sleeper::capture(&this_hart().access(), core, into)
}

/// Takes the state of a domain's hart, and its wake vector, out of an image's state or of a
/// record, and checks them. Restores nothing.
///
/// # Errors
///
/// [`StateRefusal`].
pub(crate) fn read(
    domain: &LiveDomain,
    sections: &mut StateSections<'_>,
) -> Result<(Core, HartContext), StateRefusal> {
    let core = Core::read(sections)?;
    check(domain, &core)?;
    let mut banks = domain.waking.banks.lock();
    let mut hart = sleeper::read(&this_hart().access(), &mut banks, sections)?;
    hart.deadline = Some(core.deadline());
    Ok((core, hart))
}

/// Checks that the domain has the hart, that the calling hart knows that one's features, and that
/// the OS may execute at the wake vector.
fn check(domain: &LiveDomain, core: &Core) -> Result<(), StateRefusal> {
    let (id, address) = (core.hart(), core.vector().address);
    let hart = hart::find(id).ok_or(StateRefusal::NoHart(id))?;
    if !core::ptr::eq(hart.domain(), domain) {
        return Err(StateRefusal::ForeignHart(id));
    }
    if hart.description.extensions != this_hart().description.extensions {
        return Err(StateRefusal::OtherFeatures(id));
    }
    match domain.executable(address) {
        Ok(_) => Ok(()),
        Err(_) => Err(StateRefusal::WakeVector(address)),
    }
}
