//! The recording that belongs to the harts' thread: its begin, its window and its end.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use poorwill_trace::TraceFile;

use super::MARK;
use super::recorder::Recorder;
use crate::cache::LINE_BYTES;
use crate::memory::RAM_BASE;
use crate::options::TraceSpan;
use crate::session::{Session, fail};

const LINE: u64 = LINE_BYTES as u64;

/// The machine's RAM, as QEMU has it in its own memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ram {
    /// Where its first byte is.
    pub(super) host: u64,
    bytes: u64,
}

impl Ram {
    /// The line at an offset; `None`: it is not RAM.
    pub(super) fn line(self, offset: Option<u64>) -> Option<u32> {
        let offset = offset.filter(|offset| *offset < self.bytes)?;
        u32::try_from(offset / LINE).ok()
    }
}

#[derive(Debug)]
pub(super) struct Tracer {
    pub(super) recorder: Recorder,
    pub(super) ram: Ram,
}

thread_local! {
    /// The recording, from the mark on. All harts run in the thread that it belongs to.
    static TRACER: RefCell<Option<Tracer>> = const { RefCell::new(None) };
}

/// Whether the trace of Stop is complete. The machine then goes on to switch its power off.
static IS_COMPLETE: AtomicBool = AtomicBool::new(false);

/// Whether the mark has been executed, or the power-on for the other spans.
pub(crate) fn is_tracing() -> bool {
    TRACER.with_borrow(Option::is_some)
}

/// The traced machine's RAM; `None`: no trace has begun.
pub(super) fn ram() -> Option<Ram> {
    TRACER.with_borrow(|tracer| tracer.as_ref().map(|tracer| tracer.ram))
}

/// Works with the recording, if there is one. An error ends QEMU.
pub(super) fn with<T>(
    session: &Session,
    work: impl FnOnce(&mut Tracer) -> io::Result<T>,
) -> Option<T> {
    let done = TRACER.with_borrow_mut(|tracer| tracer.as_mut().map(work));
    match done.transpose() {
        Ok(done) => done,
        Err(reason) => give_up(session, &format_args!("cannot be written: {reason}")),
    }
}

/// Ends QEMU without a trace.
fn give_up(session: &Session, reason: &dyn std::fmt::Display) -> ! {
    let Some(options) = &session.options.trace else {
        fail(reason);
    };
    let file = options.file.display();
    match TraceFile::discard(&options.file) {
        Ok(()) => fail(&format_args!("the trace {file} {reason}")),
        Err(left) => fail(&format_args!(
            "the trace {file} {reason}; its part stays: {left}"
        )),
    }
}

/// QEMU ends while a trace is wanted.
pub(crate) fn unfinished(session: &Session) {
    let Some(options) = &session.options.trace else {
        return;
    };
    let reason = match options.span {
        TraceSpan::Program => "is not complete: the machine ended before its window was full",
        TraceSpan::Stop => {
            "is not complete: the machine was not switched off after a power failure"
        }
        TraceSpan::Go => "is not complete: the machine ended before the signal",
    };
    if !IS_COMPLETE.load(Ordering::Acquire) {
        give_up(session, &reason);
    }
}

/// The machine is complete, and no hart has run yet: traces of Stop and Go begin.
pub(crate) fn powered_on(session: &Session) {
    let span = session.options.trace.as_ref().map(|options| options.span);
    if span.is_some_and(|span| span != TraceSpan::Program) {
        begin(session);
    }
}

/// The power-fail signal was raised, when the harts had executed `starts` instructions. A hart's
/// thread calls this before the hart's next block; later calls change nothing. Returns whether the
/// trace is complete.
pub(crate) fn signalled(session: &Session, starts: Vec<u64>) -> bool {
    let span = session.options.trace.as_ref().map(|options| options.span);
    match span {
        None | Some(TraceSpan::Program) => false,
        Some(TraceSpan::Stop) => {
            with(session, |tracer| {
                tracer.recorder.open(starts);
                Ok(())
            });
            false
        }
        Some(TraceSpan::Go) => complete(session),
    }
}

/// A hart is about to switch the power off: the trace of Stop is complete, if the power had failed.
pub(crate) fn powers_off(session: &Session) {
    let span = session.options.trace.as_ref().map(|options| options.span);
    let is_open = with(session, |tracer| Ok(tracer.recorder.is_open()));
    if span == Some(TraceSpan::Stop) && is_open == Some(true) {
        IS_COMPLETE.store(complete(session), Ordering::Release);
    }
}

/// Completes the trace. Returns whether there was one.
fn complete(session: &Session) -> bool {
    let Some(tracer) = TRACER.take() else {
        return false;
    };
    if let Err(reason) = tracer.recorder.finish(&session.executed()) {
        give_up(session, &format_args!("cannot be written: {reason}"));
    }
    true
}

/// A hart has executed a mark.
pub(crate) fn marked(session: &Session, hart: usize, mark: u16) {
    let span = session.options.trace.as_ref().map(|options| options.span);
    if span != Some(TraceSpan::Program) || mark != MARK || is_tracing() {
        return;
    }
    begin(session);
    session.internals.translate_anew(session.cpu(hart));
}

/// Begins the recording.
fn begin(session: &Session) {
    let Some(options) = &session.options.trace else {
        return;
    };
    let Some((host, bytes)) = session.internals.memory_at(RAM_BASE) else {
        fail(&"QEMU's memory has no RAM at 0x80000000");
    };
    let begun = Recorder::begin(options, session.options.geometry, bytes, session.executed());
    let recorder = match begun {
        Ok(recorder) => recorder,
        Err(reason) => give_up(session, &format_args!("cannot be written: {reason}")),
    };
    let ram = Ram { host, bytes };
    TRACER.set(Some(Tracer { recorder, ram }));
    for hart in 0..session.harts {
        session.qemu.set_line(hart, u64::MAX);
    }
}

/// A hart has executed its share of a window of the time base.
/// Returns whether the trace is complete.
pub(crate) fn share_used(session: &Session, hart: usize) -> bool {
    if !is_tracing() {
        return false;
    }
    let executed = session.executed_by(hart);
    let is_full = with(session, |tracer| {
        Ok(tracer
            .recorder
            .reached(hart, executed, || session.executed()))
    });
    is_full == Some(true) && complete(session)
}
