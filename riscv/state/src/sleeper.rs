//! The state of the hart that asks for a sleep, in an image or in the record of a cut.

use poorwill_hart::{Bank, BankAccess, CaptureError, HartAccess, HartContext, MAX_VLENB, section};
use poorwill_image::{StateError, StateSections, StateWriter};
use poorwill_memory::to_usize;
use poorwill_sleep::Core;

use crate::banks::{self, WakingBanks};
use crate::kept::Section;

/// Owners and versions of its sections.
pub const SECTIONS: [Section; 9] = {
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

/// Writes the calling hart's state. `core` gets the deadline of the OS's timer, if machine mode
/// keeps that.
///
/// # Errors
///
/// [`StateError::NoRoom`], also for vector registers longer than an image can have.
pub fn capture(
    hart: &(impl HartAccess + BankAccess),
    core: impl FnOnce(Option<u64>) -> Core,
    into: &mut StateWriter<'_>,
) -> Result<(), StateError> {
    let context = HartContext::capture(hart).map_err(no_room)?;
    let (owner, version) = Core::SECTION;
    into.section(owner, 0, version, &core(context.deadline))?;
    for section in context.sections() {
        into.section(section.tag, 0, section.version, section.bytes)?;
    }
    banks::write_to_wake(hart, into)
}

/// Takes the context out of a machine's state, and the banks for the wake. Checks that they fit
/// the calling hart.
///
/// # Errors
///
/// [`StateError`].
pub fn read(
    hart: &(impl HartAccess + BankAccess),
    waking: &mut WakingBanks,
    sections: &mut StateSections<'_>,
) -> Result<HartContext, StateError> {
    let mut context = HartContext::default();
    for tag in section::TAGS {
        let Some(section) = sections.take(tag, 0) else {
            continue;
        };
        let read = poorwill_hart::Section {
            tag,
            version: section.version,
            bytes: section.payload,
        };
        // The sections before this one fit, so an error is this one's.
        let fits = context.read(read).is_ok() && context.check(hart).is_ok();
        fits.then_some(()).ok_or_else(|| section.refuse())?;
    }
    waking.take(hart, sections)?;
    Ok(context)
}

/// The error for a hart whose state is longer than a section.
fn no_room(error: CaptureError) -> StateError {
    let CaptureError::VectorLength(vlenb) = error;
    StateError::NoRoom {
        owner: section::VECTOR,
        needed: to_usize(vlenb),
        left: MAX_VLENB,
    }
}
