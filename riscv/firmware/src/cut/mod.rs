//! Cuts: machine mode takes the power-fail line and stops every hart at once. At the next
//! power-on all harts go on from there. `poorwill_sleep::cut` has the order of the steps and the
//! meaning of the record.
//!
//! A hart stops at the end of its trap, when the call of the OS is finished, or where it waits to
//! be started. It writes its own part of the record, on a stack of its own in the record. The
//! first hart, which the line interrupts, coordinates.

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
use core::sync::atomic::{AtomicU64, AtomicUsize};

use poorwill_devicetree::MAX_HARTS;
use poorwill_sleep::cut::{self, CutReason};
use spin::{Mutex, Once, RwLock};

use crate::entry::stack;
use crate::platform::console::say;
use crate::platform::platform;
use crate::platform::power::{self, PowerOff};
use crate::platform::power_fail::{self, PowerFail};

pub(crate) use go::{go, go_on, wait_for_release, woke};
pub(crate) use record::{BYTES, pages_needed, pages_with, take_memory};
pub(crate) use request::request;
pub(crate) use sealed::leave_sealed;
pub(crate) use shared::{MACHINE, Machine, MachineState};
pub(crate) use status::{begin, has_line, is_armed};
pub(crate) use stop::{enter_or_stop, stop};

/// What harts share of cuts.
struct CutState {
    /// Set on a machine with a power-fail line.
    record: Once<record::Record>,
    /// Held by the hart that has a part of the record.
    parts: [Mutex<()>; record::MAX_PARTS],
    /// Held by the hart that coordinates a cut: the first where the power fails, or the one
    /// whose OS asks for a cut. It stays held after a commit.
    coordinator: Mutex<()>,
    /// Decided at each start.
    armed: Once<status::Armed>,
    proof: key::NextProof,
    disks: Mutex<disks::Disks>,
    given_up: Mutex<sealed::GivenUp>,
    /// A bit for the place of each hart but the first that has ended its last call, and interrupts
    /// no other any more.
    halted: AtomicU64,
    /// The number of the cut, once harts may write their parts; 0 while something may still
    /// interrupt them.
    sequence: AtomicU64,
    /// Number of harts but the first that have written their parts.
    gathered: AtomicUsize,
    /// Why a hart cannot write its part.
    refused: Once<CutReason>,
    /// Harts that are not as they were, and one more until devices interrupt as they did; 0 once
    /// the harts are released.
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

/// Resets the machine, as its OS asks.
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

/// Switches the power off where nothing was cut, and leaves no key in memory that outlives the
/// power.
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
        // SAFETY: the hart has left the deep stack for good.
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

/// Waits until the power is good, on a machine with a power-fail line. Before the line is armed.
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

/// Has the next start give `reason` for its cold boot, if the power fails before
/// [`take_back`].
pub(crate) fn note(reason: CutReason) {
    if let Some(record) = record::record() {
        cut::note(&record, key::number(), reason);
    }
}

/// Takes the [note] back.
pub(crate) fn take_back() {
    if let Some(record) = record::record() {
        cut::take_back(&record);
    }
}

/// The power-fail line, on a machine that has one.
fn line() -> &'static PowerFail {
    power_fail::line().expect("a cut is only where there is a power-fail line")
}
