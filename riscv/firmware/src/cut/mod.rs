//! Cuts: machine mode takes the power-fail line, stops every hart wherever it is, and at the
//! next power-on lets all go on there. In which order, and what the record says at each
//! instant, is `poorwill_sleep::cut`'s.
//!
//! A hart stops at the end of its trap, when what the OS has asked for is done, or where it
//! waits to be started; then it writes its own part of the record, on a stack of its own in
//! there. The first hart, which the line interrupts, coordinates.

mod context;
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

use poorwill_sleep::cut::{self, CutReason};
use spin::Mutex;

use crate::entry::stack;
use crate::hart::this_hart;
use crate::platform::console::say;
use crate::platform::power_fail::PowerFail;
use crate::platform::{platform, power};

pub(crate) use go::{go, go_on, wait_for_release, woke};
pub(crate) use record::{BYTES, pages_needed, pages_with, take_memory};
pub(crate) use request::request;
pub(crate) use sealed::leave_sealed;
pub(crate) use shared::{MACHINE, Machine, MachineState};
pub(crate) use status::{begin, has_line, is_armed};
pub(crate) use stop::{enter_or_stop, stop};

/// Held by the hart that writes the record: the first where the power fails, or one whose OS
/// asks for a cut. With a commit it is held for good.
static WRITER: Mutex<()> = Mutex::new(());

/// Resets the machine, as its OS wants it.
pub(crate) fn reset() -> ! {
    end();
    power::reset()
}

/// Says in the record that the OS ends in order.
fn end() {
    if let Some(record) = record::record() {
        cut::end(&record);
    }
}

/// Switches the power off by `switch` where nothing was cut, and leaves no key in memory that
/// outlives it.
pub(crate) fn power_off(switch: impl FnOnce() -> Infallible) -> ! {
    end();
    let Some(record) = record::record().filter(|_| stack::leaves_nothing()) else {
        match switch() {}
    };
    key::forget();
    let end = || {
        if let Some(line) = &platform().power_fail {
            // A hart that cannot was not to be armed for.
            _ = line.write_back_rest();
        }
        switch()
    };
    if !stack::is_on_deep() {
        match end() {}
    }
    let own = record.stack(record::place_of(&this_hart()));
    // SAFETY: the hart's own, which is used in a cut alone; and nobody goes back to the deep
    // stack.
    match unsafe {
        stack::on(own.end as usize, || {
            stack::clear_deep();
            end()
        })
    } {}
}

/// Waits until the power is good, on a machine with a power-fail line. Nothing is armed yet.
pub(crate) fn wait_for_power() {
    if let Some(line) = &platform().power_fail {
        let time = &platform().time;
        cut::wait_for_power(
            || line.is_raised_unarmed(),
            || time.milliseconds_in(time.ticks()),
            |waits| say!("{waits}"),
        );
    }
}

/// Has the next start say why it boots cold, if the power goes before that is
/// [taken back](take_back).
pub(crate) fn note(reason: CutReason) {
    if let Some(record) = record::record() {
        cut::note(&record, key::number(), reason);
    }
}

/// Takes that back.
pub(crate) fn take_back() {
    if let Some(record) = record::record() {
        cut::take_back(&record);
    }
}

/// The power-fail line, on a machine that has one.
fn line() -> &'static PowerFail {
    let line = platform().power_fail.as_ref();
    line.expect("a cut is only where there is a power-fail line")
}
