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
mod line;
mod record;
mod request;
mod sealed;
mod shared;
mod status;
mod stop;

use core::convert::Infallible;

use poorwill_sleep::cut::{self, CutReason};

use crate::entry::stack;
use crate::platform::console::say;
use crate::platform::power::{self, PowerOff};
use crate::platform::power_fail;

pub(crate) use go::{forget_all, go, go_on, wait_for_release, woke};
pub(crate) use line::wait_for_power;
pub(crate) use record::{BYTES, pages_needed, pages_with, take_memory};
pub(crate) use request::request;
pub(crate) use sealed::leave_sealed;
pub(crate) use shared::{MACHINE, Machine, MachineState};
pub(crate) use status::{begin, has_line, is_armed};
pub(crate) use stop::{enter_os, stop};

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
    if power_fail::line().is_some_and(|line| !line.caches().write_back_rest()) {
        say!("power-off: the caches cannot be written back");
    }
    power::switch_off(why)
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
