//! A hart lends its state to the weak hart, and takes it back.

use core::sync::atomic::Ordering;

use poorwill_arch::irqs_off;
#[cfg(feature = "hand-back")]
use poorwill_hart::HsmState;
use poorwill_hart::{IpiDevice, NEVER};
use poorwill_memory::EntryPoint;
use poorwill_translate::{End, Half, Kind};

use super::context::{self, hand_over, take_back};
use super::hand_back;
use super::lent::{Executor, LENT, executor};
use super::report::report;
use super::trigger::{arm, learn};
use crate::entry::{self, TrapFrame};
use crate::hart::{self, Hart, ThisHart, place_of};
use crate::platform::platform;

/// Maximum wait for the weak hart to begin.
const PATIENCE_MS: u64 = 1000;

/// The weak hart, if it can run the OS of the calling hart.
pub(super) fn ready(hart: ThisHart) -> Option<&'static Executor> {
    let is_protected = hart.domain().plan.is_completed();
    executor().filter(|executor| is_protected && executor.has_arrived())
}

/// Lets the weak hart run the OS from `vector` on, and continues the OS where that ends. Returns if
/// there is no weak hart.
pub(crate) fn resume(hart: ThisHart, vector: EntryPoint) {
    let Some(executor) = ready(hart) else {
        return;
    };
    learn(executor, hart);
    {
        let mut lent = LENT.lock();
        if lent.half.is_open() {
            report(&mut lent);
        }
        lent.half = Half::begin(Kind::Resume, platform().time.ticks());
    }
    let frame = entry::frame_at(vector);
    lend(executor, hart, &frame)
}

/// Lets the weak hart run the OS from the frame on, and continues the OS where that ends. The other
/// harts of the OS are stopped, or have given their states.
pub(super) fn lend(executor: &Executor, hart: ThisHart, frame: &TrapFrame) -> ! {
    let place = place_of(&hart);
    LENT.lock().place = place;
    give(executor, hart, frame);
    ask(executor, hart, place);
    wait(executor, hart, place)
}

/// Gives the calling hart's state away. No other hart can interrupt the OS on it afterwards.
pub(super) fn give(executor: &Executor, hart: ThisHart, frame: &TrapFrame) {
    let place = place_of(&hart);
    hart.take_requests();
    hand_over(hart, frame, &mut LENT.lock().harts[place]);
    executor.lend(place);
}

/// Asks the weak hart, and rests until it begins. All lent harts are given back if it does not.
fn ask(executor: &Executor, hart: ThisHart, place: usize) {
    let time = &platform().time;
    let latest = time.ticks() + time.ticks_in(PATIENCE_MS * 1_000_000);
    assert!(executor.ask.ask(), "the harts of one OS are lent at a time");
    executor.ipi.send();
    while executor.has_lent(place) && executor.ask.is_asked() {
        if time.ticks() >= latest && executor.ask.withdraw() {
            let mut lent = LENT.lock();
            lent.end = End::Absent;
            report(&mut lent);
            executor.give_back(lent.running());
            return hart::others().for_each(Hart::ring);
        }
        hart.timer().rest_until(latest);
        hart.handle_ipi();
    }
}

/// Rests until the calling hart, which has lent its state, is given back. Continues the OS.
pub(super) fn wait(executor: &Executor, hart: ThisHart, place: usize) -> ! {
    while executor.has_lent(place) {
        hart.timer().rest_until(NEVER);
        hart.handle_ipi();
    }
    if !executor.take(place) {
        // The OS has stopped this hart.
        hart.wait()
    }
    go_on(hart, place)
}

/// Continues the OS on the calling hart, which was given back. The hart at which the work has ended
/// serves the OS's call, if that was the end. It serves the call on its empty stack: one that sleeps
/// lends again in it.
fn go_on(own: ThisHart, place: usize) -> ! {
    let mut frame = entry::frame_at(EntryPoint::default());
    let calls = {
        let mut lent = LENT.lock();
        let is_end = lent.place == place;
        if is_end {
            hand_back::call_again(own, &lent);
        }
        take_back(own, &mut frame, &mut lent.harts[place]);
        arm(own);
        is_end && matches!(lent.end, End::Sleep | End::Call)
    };
    irqs_off::end();
    // SAFETY: the frame is the OS's on this hart, whose call chain ends here.
    unsafe {
        match calls {
            true => entry::call_from(&frame, own.stack_top()),
            false => entry::return_to(&frame, own.stack_top()),
        }
    }
}

/// Notes the properties of a hart, before it runs an OS.
pub(crate) fn join(hart: ThisHart) {
    if executor().is_some() {
        LENT.lock().harts[place_of(&hart)].features = context::features(hart);
    }
}

/// Returns whether the harts of the OS are lent. The weak hart then takes their starts.
pub(crate) fn is_lent() -> bool {
    executor().is_some_and(|executor| executor.lent.load(Ordering::Acquire) != 0)
}

/// Continues the OS on the calling hart, which was started while it was lent. Returns if it was not.
pub(crate) fn take_started(own: ThisHart) {
    let Some(executor) = executor() else {
        return;
    };
    let place = place_of(&own);
    if executor.take(place) {
        own.set_up_csrs();
        go_on(own, place)
    }
}

/// Lends the hart again at the end of a trap, if the weak hart has not ended its half.
#[cfg(feature = "hand-back")]
pub(crate) fn lend_again(hart: ThisHart, frame: &TrapFrame) {
    let Some(executor) = executor() else {
        return;
    };
    {
        let mut lent = LENT.lock();
        if !lent.half.is_open() || lent.place != place_of(&hart) {
            return;
        }
        let others_run = hart::others().any(|other| other.state() != HsmState::Stopped);
        if !frame.is_of_supervisor() || others_run {
            lent.end = if others_run { End::Turn } else { End::User };
            return report(&mut lent);
        }
    }
    hart.timer().set_machine_timer(NEVER);
    lend(executor, hart, frame)
}
