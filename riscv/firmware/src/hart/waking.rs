//! The state of the sleeping hart, and the wake vector, in an image or in the record of a cut; and
//! their restore at the wake.

use poorwill_drivers::ShutDomains;
use poorwill_hart::{Bank, CaptureError, HartContext, MAX_VLENB, Section, section};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_memory::EntryPoint;
use poorwill_sleep::{Core, Moment, StateRefusal};
use spin::Mutex;

use crate::hart::{banks, this_hart};
use crate::kept;
use crate::platform::bus::WakingDevices;
use crate::platform::platform;

/// Owners and versions of its sections.
pub(crate) const SECTIONS: [kept::Section; 9] = {
    let [csrs, float, vector, file] = section::TAGS;
    let [priorities, records, guest_files] = Bank::ALL;
    [
        Core::SECTION,
        (csrs, section::VERSION),
        (csrs, section::CSRS_VERSION),
        (float, section::VERSION),
        (vector, section::VERSION),
        (file, section::VERSION),
        (priorities.tag(), Bank::VERSION),
        (records.tag(), Bank::VERSION),
        (guest_files.tag(), Bank::VERSION),
    ]
};

/// What the waking hart restores: its own state, then DOMAINCFG of the OS's APLICs, which are shut,
/// then the devices.
type Waking = (HartContext, Option<ShutDomains>, WakingDevices);

static WAKING: Mutex<Option<Waking>> = Mutex::new(None);

/// Stores the state of a hart for its wake. The hart opens its interrupt `domains` only after its
/// interrupt file is restored: a message before that would be lost. It restores `devices` last,
/// since these interrupt at once, and the firmware prints until then.
pub(crate) fn will_wake(hart: HartContext, domains: Option<ShutDomains>, devices: WakingDevices) {
    *WAKING.lock() = Some((hart, domains, devices));
}

/// Restores the calling hart's own state, at its start for a wake.
pub(crate) fn restore_hart() {
    // Not moved: a hart's stack is small.
    let mut waking = WAKING.lock();
    if let Some((context, domains, devices)) = waking.as_ref() {
        let hart = this_hart().access();
        context.restore(&hart);
        banks::put_back(&hart);
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
    let context = HartContext::capture(&this_hart().access()).map_err(no_room)?;
    let now = Moment {
        ticks: clock.ticks(),
        now_ns: clock.now_ns(),
    };
    let core = Core::new(this_hart().id(), vector, now, context.deadline);
    let (owner, version) = Core::SECTION;
    into.section(owner, 0, version, &core)?;
    for section in context.sections() {
        into.section(section.tag, 0, section.version, section.bytes)?;
    }
    banks::write_to_wake(&this_hart().access(), into)
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
    let mut hart = read_hart(sections)?;
    hart.deadline = Some(core.deadline());
    Ok((core, hart))
}

/// Takes the sleeping hart's context out of a machine's state, and checks that it fits the calling
/// hart.
fn read_hart(sections: &mut StateSections<'_>) -> Result<HartContext, StateError> {
    let hart = this_hart().access();
    let mut context = HartContext::default();
    for tag in section::TAGS {
        let Some(section) = sections.take(tag, 0) else {
            continue;
        };
        let read = Section {
            tag,
            version: section.version,
            bytes: section.payload,
        };
        // The sections before this one fit, so an error is this one's.
        let fits = context.read(read).is_ok() && context.check(&hart).is_ok();
        fits.then_some(()).ok_or_else(|| section.refuse())?;
    }
    banks::take(&hart, sections)?;
    Ok(context)
}

/// The error for a hart whose state is longer than a section.
fn no_room(error: CaptureError) -> StateError {
    let CaptureError::VectorLength(vlenb) = error;
    StateError::NoRoom {
        owner: section::VECTOR,
        needed: vlenb as usize,
        left: MAX_VLENB,
    }
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
