//! The recording in QEMU: what translated code calls.

use std::cell::RefCell;
use std::ffi::{c_uint, c_void};
use std::io;

use poorwill_trace::TraceFile;

use super::MARK;
use super::recorder::{Access, Recorder};
use crate::TRACED;
use crate::cache::LINE_BYTES;
use crate::ending;
use crate::instruction::{Watched, length, orders_memory, zeroes_line};
use crate::memory::RAM_BASE;
use crate::qemu::interface::Instruction;
use crate::session::{Session, fail};

const LINE: u64 = LINE_BYTES as u64;
const PAGE: u64 = 4096;

/// The machine's RAM, as QEMU has it in its own memory.
#[derive(Clone, Copy, Debug)]
struct Ram {
    /// Where its first byte is.
    host: u64,
    bytes: u64,
}

impl Ram {
    /// The line at an offset; `None`: it is not RAM.
    fn line(self, offset: Option<u64>) -> Option<u32> {
        let offset = offset.filter(|offset| *offset < self.bytes)?;
        u32::try_from(offset / LINE).ok()
    }
}

#[derive(Debug)]
struct Tracer {
    recorder: Recorder,
    ram: Ram,
}

thread_local! {
    /// The recording, from the mark on. All harts run in the thread that it belongs to.
    static TRACER: RefCell<Option<Tracer>> = const { RefCell::new(None) };
}

/// Whether the mark has been executed.
pub(crate) fn is_tracing() -> bool {
    TRACER.with_borrow(Option::is_some)
}

/// Works with the recording, if there is one. An error ends QEMU.
fn with<T>(session: &Session, work: impl FnOnce(&mut Tracer) -> io::Result<T>) -> Option<T> {
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
    if session.options.trace.is_some() {
        give_up(
            session,
            &"is not complete: the machine ended before its window was full",
        );
    }
}

/// A hart has executed a mark.
pub(crate) fn marked(session: &Session, hart: usize, mark: u16) {
    let Some(options) = &session.options.trace else {
        return;
    };
    if mark != MARK || is_tracing() {
        return;
    }
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
    session.internals.translate_anew(session.cpu(hart));
}

/// A hart has executed its share of a window of the time base.
pub(crate) fn share_used(session: &Session, hart: usize) {
    if !is_tracing() {
        return;
    }
    let executed = session.executed_by(hart);
    let is_full = with(session, |tracer| {
        Ok(tracer
            .recorder
            .reached(hart, executed, || session.executed()))
    });
    if is_full != Some(true) {
        return;
    }
    if let Some(tracer) = TRACER.take()
        && let Err(reason) = tracer.recorder.finish(&session.executed())
    {
        give_up(session, &format_args!("cannot be written: {reason}"));
    }
    ending::traced(session, TRACED)
}

/// Adds calls for each line of code that the instructions of a block enter. Returns for each
/// instruction whether it enters one.
pub(crate) fn watch_fetches(
    session: &Session,
    instructions: &[Instruction],
    words: &[u32],
) -> Vec<bool> {
    let ram = TRACER.with_borrow(|tracer| tracer.as_ref().map(|tracer| tracer.ram));
    let mut last = None;
    let enters = instructions.iter().zip(words).map(|(instruction, word)| {
        let Some((ram, host)) = ram.zip(session.qemu.host_address(*instruction)) else {
            return false;
        };
        let first = host.checked_sub(ram.host);
        // The rest of an instruction may be in the next line. In the next page its address is
        // unknown; the instruction after it is there, too.
        let end = first.map(|first| first + length(*word) - 1);
        let end = end.filter(|end| first.is_some_and(|first| first / PAGE == end / PAGE));
        let mut enters = false;
        for line in [ram.line(first), ram.line(end)].into_iter().flatten() {
            if last != Some(line) {
                (session.qemu).call_if_other_line(*instruction, fetches, line);
                last = Some(line);
                enters = true;
            }
        }
        enters
    });
    enters.collect()
}

/// Adds calls for the instruction's accesses, flushes and fences.
pub(crate) fn watch(session: &Session, instruction: Instruction, word: u32) {
    let qemu = &session.qemu;
    if orders_memory(word) {
        qemu.call_before(instruction, fences, 0);
    } else if let Some(Watched::FlushLine {
        register,
        is_physical,
    }) = Watched::of(word)
    {
        let data = crate::access::flush_data(register, is_physical);
        qemu.call_with_registers(instruction, flushes_line, data);
    } else if zeroes_line(word) {
        qemu.call_after_store(instruction, zeroes);
    } else if !crate::instruction::is_plain(word) {
        qemu.call_after_store(instruction, stores);
        qemu.call_after_load(instruction, loads);
    }
}

extern "C" fn loads(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    accessed(number, info, address, Access::Load);
}

extern "C" fn stores(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    accessed(number, info, address, Access::Store);
}

/// QEMU executes `cbo.zero` as a store to each byte of the line, the first one first.
extern "C" fn zeroes(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    if address.is_multiple_of(LINE) {
        accessed(number, info, address, Access::Store);
    }
}

fn accessed(number: c_uint, info: u32, address: u64, access: Access) {
    let session = Session::get();
    let hart = Session::hart(number);
    at(session, hart, session.qemu.physical(info, address), access);
    let rest = LINE - address % LINE;
    if session.qemu.access_bytes(info) as u64 > rest {
        at(
            session,
            hart,
            session.qemu.physical(info, address + rest),
            access,
        );
    }
}

fn at(session: &Session, hart: usize, physical: Option<u64>, access: Access) {
    let offset = physical.and_then(|physical| physical.checked_sub(RAM_BASE));
    with(session, |tracer| match tracer.ram.line(offset) {
        Some(line) => (tracer.recorder).access(hart, access, line, || session.executed_by(hart)),
        None => Ok(()),
    });
}

/// QEMU calls this before an instruction of another line than the hart's last one.
extern "C" fn fetches(number: c_uint, data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    let line = u32::try_from(data.addr()).expect("a line's number");
    session.qemu.set_line(hart, line.into());
    with(session, |tracer| {
        let executed = || session.executed_by(hart);
        (tracer.recorder).access(hart, Access::Fetch, line, executed)
    });
}

extern "C" fn fences(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    let executed = session.executed_by(hart);
    with(session, |tracer| tracer.recorder.fence(hart, executed));
}

extern "C" fn flushes_line(number: c_uint, data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    let address = crate::access::flushed(session, hart, data.addr());
    at(session, hart, address, Access::Flush);
}
