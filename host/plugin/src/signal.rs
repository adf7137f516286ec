//! Raises and lowers the power-fail line, a source of the machine's first interrupt controller.

use std::ffi::CString;

use thiserror::Error;

use crate::options::Loads;
use crate::qemu::internals::{Internals, Irq};
use crate::report::Cause;
use crate::session::{Session, fail};
use crate::time::TimeBase;
use crate::trace::tracer;
use crate::{TRACED, ending};

#[derive(Debug, Error)]
pub(crate) enum LineError {
    #[error("the machine has neither a PLIC nor an APLIC")]
    NoController,
    #[error("the interrupt controller has sources below {sources}: irq={wanted} is too high")]
    NoSource { wanted: u32, sources: u64 },
    #[error("the machine does not run yet")]
    NotYet,
}

/// QEMU's types of interrupt controllers, and for each the property with its number of sources.
const CONTROLLERS: [(&str, &std::ffi::CStr); 2] = [
    ("riscv.sifive.plic", c"num-sources"),
    ("riscv.aplic", c"num-irqs"),
];

/// The most devices that are searched for the controller. Boards create it among the first.
const MOST_DEVICES: usize = 1024;

/// Finds the interrupt line of that source at the first controller. If it is an APLIC, its first
/// domain is the root, from which the others get their sources.
pub(crate) fn find(internals: &Internals, source: u32) -> Result<Irq, LineError> {
    for number in 0..MOST_DEVICES {
        let path = format!("/machine/unattached/device[{number}]");
        let path = CString::new(path).expect("no zero byte");
        let Some((device, kind)) = internals.device(&path) else {
            continue;
        };
        let Some((_, count)) = CONTROLLERS.iter().find(|(name, _)| *name == kind) else {
            continue;
        };
        let sources = internals.property(device, count);
        let no_source = LineError::NoSource {
            wanted: source,
            sources,
        };
        if u64::from(source) >= sources {
            return Err(no_source);
        }
        return internals.line(device, source).ok_or(no_source);
    }
    Err(LineError::NoController)
}

/// Raises the power-fail line for `cause`. `hart` executed the instruction, if one is the cause.
/// The caller must not hold the model's lock.
pub(crate) fn raise(session: &Session, cause: Cause, hart: Option<usize>) -> Result<(), LineError> {
    let line = *session.line.get().ok_or(LineError::NotYet)?;
    let lock = session.internals.lock();
    let counters = session.counters();
    let mut model = session.model();
    model.raised(cause, hart, &counters);
    let to_see_loads = session.options.loads == Loads::Signalled && !model.sees_loads;
    model.sees_loads |= to_see_loads;
    drop(model);
    session.internals.set_line(&lock, line, true);
    if to_see_loads {
        session.internals.translate_anew(session.cpu(0));
    }
    Ok(())
}

/// Counts down to the signal. `hart` executed the instruction or store.
pub(crate) fn count_down(session: &Session, cause: Cause, hart: usize) {
    let mut model = session.model();
    let now = model.time.as_ref().map_or(0, TimeBase::now);
    if model.signal_countdown == 0 || now < session.options.signal_from {
        return;
    }
    model.signal_countdown -= 1;
    let is_now = model.signal_countdown == 0;
    drop(model);
    if !is_now {
        return;
    }
    if let Err(reason) = raise(session, cause, Some(hart)) {
        fail(&reason);
    }
    passed(session);
}

/// Tells a trace that the signal was raised, if it was. A hart's thread calls this before the hart's
/// next block. The caller must not hold the model's lock.
pub(crate) fn passed(session: &Session) {
    if session.options.trace.is_none() {
        return;
    }
    let starts = session.model().instructions_at_signal();
    if starts.is_some_and(|starts| tracer::signalled(session, starts)) {
        ending::traced(session, TRACED);
    }
}

/// Counts down to the second signal. At its execution the power-fail line falls for an instant,
/// which is too short to charge a power supply.
pub(crate) fn count_down_again(session: &Session) {
    let mut model = session.model();
    if model.again_countdown == 0 || !model.is_raised() {
        return;
    }
    model.again_countdown -= 1;
    let is_now = model.again_countdown == 0;
    model.rose_again |= is_now;
    drop(model);
    if is_now && let Some(line) = session.line.get() {
        let lock = session.internals.lock();
        session.internals.set_line(&lock, *line, false);
        session.internals.set_line(&lock, *line, true);
    }
}

/// Lowers the power-fail line: the power is back.
pub(crate) fn lower(session: &Session) -> Result<(), LineError> {
    let line = *session.line.get().ok_or(LineError::NotYet)?;
    let lock = session.internals.lock();
    session.model().schedule.lowered();
    session.internals.set_line(&lock, line, false);
    Ok(())
}
