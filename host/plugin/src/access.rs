//! What a hart's access to memory or to a device does: to the caches, the power-fail line, and the
//! power.

use std::ffi::{CStr, c_uint, c_void};

use crate::cache::{Cache, LINE_BYTES, Visible};
use crate::ending::guest_power_off;
use crate::flushed::flushed;
use crate::log::What;
use crate::memory::{RAM_BASE, Ram};
use crate::model::{Guard, Model};
use crate::options::{SignalWhen, contains};
use crate::qemu::interface::Place;
use crate::report::Cause;
use crate::session::Session;
use crate::signal;

/// The device that switches the power off.
const POWER_SWITCH: &CStr = c"riscv.sifive.test";

/// QEMU's exit status after a store of `value` to the power switch. `None`: another request, such
/// as a reset.
fn status_of(value: u64) -> Option<u8> {
    match value & 0xffff {
        0x5555 => Some(0),
        0x3333 => Some((value >> 16).to_le_bytes()[0]),
        _ => None,
    }
}

/// Offsets of the flush block's registers. `Flush64` takes an address, `Flush32` an address shifted
/// right by four bits.
const FLUSH_64: u64 = 0x200;
const FLUSH_32: u64 = 0x240;

const PAGE_BYTES: u64 = 4096;

/// One access of a hart.
#[derive(Clone, Copy)]
struct Access {
    hart: usize,
    info: u32,
    /// A virtual address.
    address: u64,
    is_store: bool,
}

/// QEMU calls this after a load or store of a hart.
pub(crate) extern "C" fn accessed(number: c_uint, info: u32, address: u64, _data: *mut c_void) {
    let session = Session::get();
    let access = Access {
        hart: Session::hart(number),
        info,
        address,
        is_store: session.qemu.is_store(info),
    };
    match session.qemu.place(info, address) {
        None => session.model().unknown_accesses += 1,
        Some(place) if place.is_device => device(session, access, place),
        Some(place) => memory(session, access, place),
    }
}

fn device(session: &Session, access: Access, place: Place) {
    let mut model = session.model();
    model.device_access(access.hart, access.is_store);
    if !access.is_store {
        if let Some(log) = &session.options.log
            && contains(&log.loads, place.address)
        {
            let counter = session.qemu.read_counter(access.hart);
            let address = place.address;
            model.note(access.hart, counter, What::Loads { address });
        }
        return;
    }
    let value = session.qemu.value(access.info);
    if let Some(register) = session.options.flush_register {
        let line = match place.address.checked_sub(register) {
            Some(FLUSH_64) => Some(value),
            Some(FLUSH_32) => Some(value << 4),
            Some(_) | None => None,
        };
        if let Some(address) = line {
            flush(&mut model, address, |cache, line| {
                cache.flush_by_register(access.hart, line);
            });
        }
    }
    if let Some(log) = &session.options.log
        && contains(&log.registers, place.address)
    {
        let counter = session.qemu.read_counter(access.hart);
        let address = place.address;
        model.note(access.hart, counter, What::Stores { address, value });
    }
    drop(model);
    if matches!(session.options.signal, SignalWhen::Store { address, .. } if address == place.address)
    {
        signal::count_down(session, Cause::Store, access.hart);
    }
    let Access { info, address, .. } = access;
    if let Some(status) = status_of(value)
        && session.qemu.is_device(info, address, POWER_SWITCH)
    {
        guest_power_off(session, access.hart, status);
    }
}

fn memory(session: &Session, access: Access, place: Place) {
    let bytes = session.qemu.access_bytes(access.info);
    let (_, start) = split(place.address);
    let first = bytes.min(LINE_BYTES - start);
    let mut model = session.model();
    part(&mut model, access, place.address, first);
    if first == bytes {
        return;
    }
    // The rest is in the next line. If that is in another page, its physical address is not the
    // next one.
    let next = place.address + first as u64;
    let next = if next.is_multiple_of(PAGE_BYTES) {
        let rest = access.address + first as u64;
        match session.qemu.place(access.info, rest) {
            Some(place) => place.address,
            None => return model.unknown_accesses += 1,
        }
    } else {
        next
    };
    part(&mut model, access, next, bytes - first);
}

fn part(model: &mut Guard<'_>, access: Access, address: u64, bytes: usize) {
    let Some(line) = line(model, address) else {
        return;
    };
    let Some(cache) = &mut model.cache else {
        return;
    };
    if access.is_store {
        cache.store(access.hart, line, split(address).1, bytes);
    } else {
        cache.load(access.hart, line);
    }
}

/// Splits a physical address into the number of its line and the byte within it.
#[expect(clippy::cast_possible_truncation, reason = "less than a line")]
fn split(address: u64) -> (u64, usize) {
    let line = LINE_BYTES as u64;
    (address / line, (address % line) as usize)
}

/// The number of the RAM's line at a physical address; `None`: it is not RAM.
fn line(model: &Model, address: u64) -> Option<u32> {
    let offset = address.checked_sub(RAM_BASE)?;
    let line = u32::try_from(offset / LINE_BYTES as u64).ok()?;
    let lines = model.cache.as_ref()?.visible().lines();
    ((line as usize) < lines).then_some(line)
}

fn flush(model: &mut Guard<'_>, address: u64, by: impl FnOnce(&mut Cache<Ram>, u32)) {
    if let Some(line) = line(model, address)
        && let Some(cache) = &mut model.cache
    {
        by(cache, line);
    }
}

/// QEMU calls this before a hart flushes the line whose address is in a register. The flush counts
/// even if the instruction raises an exception.
pub(crate) extern "C" fn flushes_line(number: c_uint, data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    if let Some(address) = flushed(session, hart, data.addr()) {
        flush(&mut session.model(), address, |cache, line| {
            cache.flush_line(hart, line);
        });
    }
}

/// QEMU calls this before a hart flushes all of its lines.
pub(crate) extern "C" fn flushes_all(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    if let Some(cache) = &mut session.model().cache {
        cache.flush_all(Session::hart(number));
    }
}

/// QEMU calls this before a hart executes a fence.
pub(crate) extern "C" fn fences(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    if let Some(cache) = &mut session.model().cache {
        cache.fence(Session::hart(number));
    }
}
