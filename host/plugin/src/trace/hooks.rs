//! The recording in QEMU: what translated code calls.

use std::ffi::{c_uint, c_void};

use super::recorder::Access;
use super::tracer::{Ram, ram, with};
use crate::cache::LINE_BYTES;
use crate::instruction::{Watched, length, orders_memory, returns, zeroes_line};
use crate::memory::RAM_BASE;
use crate::qemu::interface::{Accessed, Instruction};
use crate::session::Session;

const LINE: u64 = LINE_BYTES as u64;
const PAGE: u64 = 4096;

/// Adds calls for each line of code that the instructions of a block enter. Returns for each
/// instruction whether it enters one.
pub(crate) fn watch_fetches(
    session: &Session,
    instructions: &[Instruction],
    words: &[u32],
) -> Vec<bool> {
    let ram = ram();
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

/// The lowest address of the kernel's half.
const KERNEL: u64 = 1 << 63;

/// The line of a program's instruction; `None`: the kernel's or the firmware's. Firmware executes
/// without translation.
fn line_of_program(session: &Session, ram: Ram, instruction: Instruction) -> Option<u32> {
    let address = session.qemu.address(instruction);
    let offset = session
        .qemu
        .host_address(instruction)?
        .checked_sub(ram.host)?;
    let is_program = address < KERNEL && address != RAM_BASE + offset;
    is_program.then(|| ram.line(Some(offset))).flatten()
}

/// Adds calls for the instruction's accesses, flushes, fences and returns.
pub(crate) fn watch(session: &Session, instruction: Instruction, word: u32) {
    let qemu = &session.qemu;
    let line = ram().and_then(|ram| line_of_program(session, ram, instruction));
    if let Some(line) = line {
        with(session, |tracer| {
            tracer.recorder.by_program(0, Access::Fetch, line);
            Ok(())
        });
        if returns(word) {
            qemu.call_before(instruction, program_returns, 0);
        }
    }
    // A program's accesses have calls of their own.
    let [loads, stores, zeroes]: [Accessed; 3] = match line {
        Some(_) => [program_loads, program_stores, program_zeroes],
        None => [loads, stores, zeroes],
    };
    if orders_memory(word) {
        qemu.call_before(instruction, fences, 0);
    } else if let Some(Watched::FlushLine {
        register,
        is_physical,
    }) = Watched::of(word)
    {
        let data = crate::flushed::flush_data(register, is_physical);
        qemu.call_with_registers(instruction, flushes_line, data);
    } else if zeroes_line(word) {
        qemu.call_after_store(instruction, zeroes);
    } else if !crate::instruction::is_plain(word) {
        qemu.call_after_store(instruction, stores);
        qemu.call_after_load(instruction, loads);
    }
}

extern "C" fn loads(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    accessed(number, info, address, Access::Load, By::System);
}

extern "C" fn stores(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    accessed(number, info, address, Access::Store, By::System);
}

extern "C" fn program_loads(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    accessed(number, info, address, Access::Load, By::Program);
}

extern "C" fn program_stores(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    accessed(number, info, address, Access::Store, By::Program);
}

/// QEMU executes `cbo.zero` as a store to each byte of the line, the first one first.
extern "C" fn zeroes(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    if address.is_multiple_of(LINE) {
        accessed(number, info, address, Access::Store, By::System);
    }
}

extern "C" fn program_zeroes(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    if address.is_multiple_of(LINE) {
        accessed(number, info, address, Access::Store, By::Program);
    }
}

/// Whose code accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The kernel's or the firmware's.
    System,
    Program,
}

fn accessed(number: c_uint, info: u32, address: u64, access: Access, by: By) {
    let session = Session::get();
    let hart = Session::hart(number);
    let rest = LINE - address % LINE;
    let is_over_two = session.qemu.access_bytes(info) as u64 > rest;
    let parts = [Some(address), is_over_two.then_some(address + rest)];
    for part in parts.into_iter().flatten() {
        at(session, hart, session.qemu.physical(info, part), access, by);
    }
}

fn at(session: &Session, hart: usize, physical: Option<u64>, access: Access, by: By) {
    let offset = physical.and_then(|physical| physical.checked_sub(RAM_BASE));
    with(session, |tracer| match tracer.ram.line(offset) {
        Some(line) => {
            if by == By::Program {
                tracer.recorder.by_program(hart, access, line);
            }
            (tracer.recorder).access(hart, access, line, || session.executed_by(hart))
        }
        None => Ok(()),
    });
}

/// QEMU calls this before a return of a program.
extern "C" fn program_returns(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    with(session, |tracer| {
        tracer.recorder.returns(Session::hart(number));
        Ok(())
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
    let address = crate::flushed::flushed(session, hart, data.addr());
    at(session, hart, address, Access::Flush, By::System);
}
