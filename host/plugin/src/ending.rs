//! What the plugin does when the power ends.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::CUT;
use crate::log::Log;
use crate::report::{End, Report};
use crate::session::{Session, exit_now, fail};
use crate::trace::tracer;

/// Ends the power: QEMU exits at once. The caller must not hold the model's lock.
pub(crate) fn cut(session: &Session, end: End) -> ! {
    // The big lock keeps devices from writing while lost lines are restored.
    let _lock = session.internals.lock();
    take_power(session, end, None);
    finish(session);
    exit_now(CUT)
}

/// A trace is complete: QEMU exits at once with `status`. The caller must not hold the model's lock.
pub(crate) fn traced(session: &Session, status: i32) -> ! {
    let _lock = session.internals.lock();
    take_power(session, End::Traced, None);
    finish(session);
    exit_now(status)
}

/// `hart` has switched the power off. QEMU ends with `status` at its next chance, and no hart
/// executes anything until then. QEMU flushes its disks, unless `disks=lose` is set.
pub(crate) fn guest_power_off(session: &Session, hart: usize, status: u8) {
    tracer::powers_off(session);
    let lock = session.internals.lock();
    take_power(session, End::PowerOff, Some(hart));
    if session.options.loses_unflushed {
        finish(session);
        exit_now(status.into());
    }
    session.internals.stop_harts(&lock);
}

/// QEMU ends, and not by [`cut`]: its user ended it, or the guest switched the power off.
pub(crate) fn qemu_ended(session: &Session) {
    take_power(session, End::PowerOff, None);
    finish(session);
}

fn take_power(session: &Session, end: End, hart: Option<usize>) {
    let counters = session.counters();
    let mut model = session.model();
    model.end(end, hart, &counters);
}

/// Writes the report, and removes the control socket.
fn finish(session: &Session) {
    if let Some(socket) = &session.options.control
        && let Err(reason) = std::fs::remove_file(socket)
    {
        fail(&format_args!(
            "the control socket {} cannot be removed: {reason}",
            socket.display()
        ));
    }
    let mut model = session.model();
    if let (Some(Err(reason)), Some(log)) = (model.log.take().map(Log::end), &session.options.log) {
        fail(&format_args!(
            "the log {} cannot be written: {reason}",
            log.file.display()
        ));
    }
    if let (Some(file), Some(report)) = (&session.options.report, model.report())
        && let Err(reason) = write(file, report)
    {
        fail(&format_args!(
            "the report {} cannot be written: {reason}",
            file.display()
        ));
    }
}

fn write(name: &Path, report: &Report) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(name)?);
    serde_json::to_writer_pretty(&mut file, report)?;
    file.write_all(b"\n")?;
    file.flush()
}
