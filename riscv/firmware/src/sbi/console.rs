//! DBCN (SBI 3.0, chapter 12).

use poorwill_drivers::uart::Stuck;
use sbi_spec::binary::SbiRet;
use sbi_spec::dbcn::{CONSOLE_READ, CONSOLE_WRITE, CONSOLE_WRITE_BYTE};

use super::Call;
use crate::platform::{console, platform};

/// A call moves at most so many bytes and says so, which the specification
/// allows: it bounds how long one hart keeps the console.
const AT_ONCE: usize = 256;

pub(super) fn call(call: Call) -> SbiRet {
    let [length, low, high, ..] = call.arguments;
    match call.function {
        CONSOLE_WRITE => transfer(length, low, high, write),
        CONSOLE_READ => transfer(length, low, high, read),
        CONSOLE_WRITE_BYTE => match console::send(&[length.to_le_bytes()[0]]) {
            Ok(()) => SbiRet::success(0),
            Err(Stuck { .. }) => SbiRet::failed(),
        },
        _ => SbiRet::not_supported(),
    }
}

/// Checks that the bytes are OS memory throughout before a part is moved.
fn transfer(
    length: usize,
    low: usize,
    high: usize,
    move_some: fn(usize, usize) -> Result<usize, Stuck>,
) -> SbiRet {
    if high != 0 || !platform().memory.contains(low as u64, length as u64) {
        return SbiRet::invalid_param();
    }
    move_some(low, length.min(AT_ONCE))
        .map_or_else(|Stuck { .. }| SbiRet::failed(), SbiRet::success)
}

/// Tells how many bytes were sent, if any were.
fn write(address: usize, length: usize) -> Result<usize, Stuck> {
    let mut bytes = [0; AT_ONCE];
    let source = core::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the bytes were checked to be OS memory; they are copied once, so
    // that what another hart does to them in between cannot matter.
    unsafe { source.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
    match console::send(&bytes[..length]) {
        Err(Stuck { sent: sent @ 1.. }) => Ok(sent),
        sent => sent.map(|()| length),
    }
}

fn read(address: usize, length: usize) -> Result<usize, Stuck> {
    let mut bytes = [0; AT_ONCE];
    let received = console::receive(&mut bytes[..length]);
    let target = core::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: the bytes were checked to be OS memory.
    unsafe { target.copy_from_nonoverlapping(bytes.as_ptr(), received) };
    Ok(received)
}
