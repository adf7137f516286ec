//! Cuts: machine mode takes the power-fail line and stops every hart at the same instant. At the
//! next power-on all harts continue from there. `poorwill_sleep::cut` defines the order of the
//! steps and the record's format.
//!
//! A hart stops at the end of its trap, after the OS's call, or where it waits for a start. It
//! writes its own part of the record, and uses a stack of its own there. The first hart, which the
//! line interrupts, coordinates.

mod devices;
pub(crate) mod disks;
mod go;
mod key;
mod record;
mod request;
mod sealed;
mod shared;
mod status;
mod stop;

use core::convert::Infallible;
use core::sync::atomic::{AtomicU64, AtomicUsize};

use poorwill_devicetree::MAX_HARTS;
use poorwill_sleep::cut::{self, CutReason};
use spin::{Mutex, Once, RwLock};

use crate::entry::stack;
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power::{self, PowerOff};
use crate::platform::power_fail::{self, PowerFail};

pub(crate) use go::{forget_all, go, go_on, wait_for_release, woke};
pub(crate) use record::{BYTES, pages_needed, pages_with, take_memory};
pub(crate) use request::request;
pub(crate) use sealed::leave_sealed;
pub(crate) use shared::{MACHINE, Machine, MachineState};
pub(crate) use status::{begin, has_line, is_armed};
pub(crate) use stop::{enter_os, stop};

/// The state of cuts that harts share.
struct CutState {
    /// Set on a machine with a power-fail line.
    record: Once<record::Record>,
    /// One lock for each part of the record.
    parts: [Mutex<()>; record::MAX_PARTS],
    /// The lock of the coordinator: the first hart at a power failure, or the hart whose OS asks
    /// for a cut. After a commit it stays locked.
    coordinator: Mutex<()>,
    /// Each start sets this once.
    armed: Once<status::Armed>,
    proof: key::NextProof,
    disks: Mutex<disks::Disks>,
    given_up: Mutex<sealed::GivenUp>,
    /// A bit for each hart that has finished its last call, and sends no more interrupts. The bit's
    /// number is the hart's index. The first hart has no bit.
    halted: AtomicU64,
    /// The number of the cut. It is 0 while a hart or device may still interrupt harts, which then
    /// must not write their parts.
    sequence: AtomicU64,
    /// Number of harts but the first that have written their parts.
    gathered: AtomicUsize,
    /// The first error of a hart that could not write its part.
    refused: Once<CutReason>,
    /// The number of harts that are not restored yet, and one more until devices and controllers
    /// may interrupt; 0 once the harts are released.
    unready: AtomicUsize,
}

static STATE: CutState = CutState {
    record: Once::new(),
    parts: [const { Mutex::new(()) }; record::MAX_PARTS],
    coordinator: Mutex::new(()),
    armed: Once::new(),
    proof: RwLock::new(None),
    disks: Mutex::new(disks::Disks::new_const()),
    given_up: Mutex::new(sealed::GivenUp::NOTHING),
    halted: AtomicU64::new(0),
    sequence: AtomicU64::new(0),
    gathered: AtomicUsize::new(0),
    refused: Once::new(),
    unready: AtomicUsize::new(0),
};

const _: () = assert!(MAX_HARTS <= u64::BITS as usize);

/// Resets the machine at the OS's request.
pub(crate) fn reset() -> ! {
    end();
    power::reset()
}

/// Notes in the record that the OS has ended in an orderly way.
fn end() {
    if let Some(record) = record::record() {
        cut::end(&record);
    }
}

/// Switches the power off without a cut. Clears the vault's key if memory outlives the power.
pub(crate) fn power_off(why: PowerOff) -> ! {
    end();
    let Some(record) = record::record().filter(|_| stack::leaves_nothing()) else {
        power::switch_off(why)
    };
    if let Err(reason) = key::forget() {
        say!("power-off: {reason}");
    }
    if !stack::is_on_deep() {
        write_back_and_switch_off(why)
    }
    match record.on_stack(|| -> Infallible {
        // SAFETY: the hart has left the deep stack, and does not return to it.
        unsafe { stack::clear_deep() };
        write_back_and_switch_off(why)
    }) {}
}

fn write_back_and_switch_off(why: PowerOff) -> ! {
    if power_fail::line().is_some_and(|line| !line.write_back_rest()) {
        say!("power-off: the caches cannot be written back");
    }
    power::switch_off(why)
}

/// Waits until the power is good, on a machine with a power-fail line. The line must not be armed
/// yet.
pub(crate) fn wait_for_power() {
    if let Some(line) = power_fail::line() {
        let time = &platform().time;
        cut::wait_for_power(
            || line.is_raised_unarmed(),
            || time.milliseconds_in(time.ticks()),
            |waits| say!("{waits}"),
        );
    }
}

/// Notes the reason for a cold boot. The next start reports it if the power fails before
/// [`take_back`].
pub(crate) fn note(reason: CutReason) {
    if let Some(record) = record::record() {
        cut::note(&record, key::number(), reason);
    }
}

/// Removes the [note].
pub(crate) fn take_back() {
    if let Some(record) = record::record() {
        cut::take_back(&record);
    }
}

/// The power-fail line. Callers know that the machine has one.
fn line() -> &'static PowerFail {
    power_fail::line().expect("only a machine with a power-fail line is cut")
}
