//! DBCN (SBI 3.0, chapter 12).

use poorwill_arch::{Time, interruptible};
use poorwill_domain::{ClaimError, ClaimedBytes};
use poorwill_drivers::uart::Unsent;
use sbi_spec::binary::SbiRet;
use sbi_spec::dbcn::{CONSOLE_READ, CONSOLE_WRITE, CONSOLE_WRITE_BYTE};

use super::call::{self, Call};
use crate::domain::LiveDomain;
use crate::hart::ThisHart;
use crate::platform::console;

/// Maximum bytes of a call. The specification allows fewer bytes than requested; this bounds the
/// time that one hart holds the console.
const MAX_BYTES: usize = 256;

pub(super) fn call(call: Call) -> SbiRet {
    let [length, low, high, ..] = call.arguments;
    let memory = || {
        let domain = call.caller.domain;
        domain.bytes(length as u64, low as u64, high as u64)
    };
    match call.function {
        // Interrupts are on, since other harts may wait for this hart's fences. SAFETY: neither a
        // fence nor the OS's timer needs the console.
        CONSOLE_WRITE => unsafe {
            let write = |from| write(from, call.caller.domain);
            interruptible(call.caller.hart.interrupt(), || transfer(memory(), write))
        },
        CONSOLE_READ => transfer(memory(), |to| read(to, call.caller.domain)),
        CONSOLE_WRITE_BYTE => write_byte(length, call.caller.domain),
        _ => SbiRet::not_supported(),
    }
}

pub(super) fn write_byte(word: usize, domain: &LiveDomain) -> SbiRet {
    match send(&[word.to_le_bytes()[0]], domain) {
        Ok(_) => SbiRet::success(0),
        // DBCN has no more specific error for an unsent byte.
        Err(_) => SbiRet::failed(),
    }
}

pub(super) fn read_byte(domain: &LiveDomain) -> Option<u8> {
    let mut byte = [0];
    (domain.has_console && console::receive(&mut byte) > 0).then_some(byte[0])
}

/// Transfers a part of the bytes, all of which must be the domain's memory.
fn transfer(
    memory: Result<ClaimedBytes, ClaimError>,
    move_some: impl FnOnce(ClaimedBytes) -> Result<usize, Unsent>,
) -> SbiRet {
    match memory.map(|bytes| move_some(bytes.first(MAX_BYTES as u64))) {
        Ok(Ok(moved)) => SbiRet::success(moved),
        Ok(Err(_)) => SbiRet::failed(),
        Err(error) => call::refusal(error),
    }
}

/// Sends bytes, and returns their number. If the power fails, the call ends early: after Go it
/// returns the number of bytes sent before.
fn write(from: ClaimedBytes, domain: &LiveDomain) -> Result<usize, Unsent> {
    let mut bytes = [0; MAX_BYTES];
    let length = from.length() as usize;
    let source = core::ptr::with_exposed_provenance::<u8>(from.address() as usize);
    // SAFETY: claimed bytes are the OS's memory. They are copied once, so changes by another hart
    // do not matter.
    unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
    match send(&bytes[..length], domain) {
        Err(Unsent::Stuck { sent: sent @ 1.. } | Unsent::Ended { sent }) => Ok(sent),
        sent => sent,
    }
}

/// The input is the UART owner's.
fn read(to: ClaimedBytes, domain: &LiveDomain) -> Result<usize, Unsent> {
    let mut bytes = [0; MAX_BYTES];
    let received = match domain.has_console {
        true => console::receive(&mut bytes[..to.length() as usize]),
        false => 0,
    };
    let target = core::ptr::with_exposed_provenance_mut::<u8>(to.address() as usize);
    // SAFETY: claimed bytes are the OS's memory.
    unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), received) };
    Ok(received)
}

/// Sends a domain's bytes to the UART if it has it; else the bytes wait for the console, and
/// [`print_waiting`] prints them.
fn send(bytes: &[u8], domain: &LiveDomain) -> Result<usize, Unsent> {
    if domain.has_console {
        return console::send(bytes).map(|()| bytes.len());
    }
    Ok(domain.take_text(bytes))
}

/// Milliseconds until the next attempt to print: after progress, and without it.
const PRINT_AGAIN_MS: [u64; 2] = [1, 20];

/// Prints some of the text of the hart's domain, if any waits, at the end of each of its traps. The
/// hart's machine timer interrupts it for the rest.
pub(crate) fn print_waiting(hart: ThisHart, time: &Time) {
    let domain = hart.domain();
    if !domain.has_text() {
        return;
    }
    let printed = domain.print_some();
    if !printed.is_all {
        let [soon, later] = PRINT_AGAIN_MS;
        let ms = if printed.is_some { soon } else { later };
        let due = time.ticks().saturating_add(time.ticks_in(ms * 1_000_000));
        hart.timer().set_machine_timer(due);
    }
}
