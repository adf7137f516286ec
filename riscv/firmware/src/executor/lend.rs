//! A hart lends its state to the weak hart, and takes it back.

use core::sync::atomic::Ordering;

use poorwill_arch::irqs_off;
#[cfg(feature = "hand-back")]
use poorwill_hart::HsmState;
use poorwill_hart::{IpiDevice, NEVER};
use poorwill_memory::EntryPoint;
use poorwill_translate::Counts;

use super::context::{self, hand_over, take_back};
use super::hand_back;
use super::lent::{End, Executor, Half, LENT, Lent, executor};
use crate::entry::{self, TrapFrame};
#[cfg(feature = "hand-back")]
use crate::hart;
use crate::hart::{ThisHart, place_of};
use crate::platform::platform;

/// Maximum wait for the weak hart to begin.
const PATIENCE_MS: u64 = 1000;

/// Lets the weak hart run the OS from `vector` on. Continues the OS where that ends; returns if
/// there is no weak hart, or it does not answer.
pub(crate) fn resume(hart: ThisHart, vector: EntryPoint) {
    let is_protected = hart.domain().plan.is_completed();
    let Some(executor) = executor().filter(|it| is_protected && it.has_arrived()) else {
        return;
    };
    {
        let mut lent = LENT.lock();
        if lent.half.is_open() {
            report(hart, &mut lent);
        }
        lent.half = Half::begin(platform().time.ticks());
    }
    let mut frame = entry::frame_at(vector);
    lend(executor, hart, &mut frame);
    irqs_off::end();
    // SAFETY: the frame is the OS's on this hart, whose call chain ends here.
    unsafe { entry::return_to(&frame, hart.stack_top()) }
}

/// Lets the weak hart run the OS from the frame on, and puts into the frame where that ends.
fn lend(executor: &Executor, hart: ThisHart, frame: &mut TrapFrame) {
    let place = place_of(&hart);
    {
        let mut lent = LENT.lock();
        lent.lender = place;
        hand_over(hart, frame, &mut lent.harts[place]);
    }
    executor.is_lent.store(true, Ordering::Release);
    let is_done = is_carried_out(executor, hart);
    let mut lent = LENT.lock();
    match is_done {
        true if hand_back::call_again(hart, &mut lent) => {}
        true => report(hart, &mut lent),
        false => (hart.domain()).say(format_args!("executor: the weak hart does not answer")),
    }
    if is_done && !executor.take(place) {
        drop(lent);
        // The OS has stopped this hart.
        hart.wait()
    }
    take_back(hart, frame, &mut lent.harts[place]);
}

/// Notes the properties of a hart, before it runs an OS.
pub(crate) fn join(hart: ThisHart) {
    if executor().is_some() {
        LENT.lock().harts[place_of(&hart)].features = context::features(hart);
    }
}

/// Returns whether the harts of the OS are lent. The weak hart then takes their starts.
pub(crate) fn is_lent() -> bool {
    executor().is_some_and(|executor| executor.is_lent.load(Ordering::Acquire))
}

/// Continues the OS on the calling hart, which was started while it was lent. Returns if it was not.
pub(crate) fn take_started(own: ThisHart) {
    let Some(executor) = executor() else {
        return;
    };
    let place = place_of(&own);
    if !executor.take(place) {
        return;
    }
    own.set_up_csrs();
    let mut frame = entry::frame_at(EntryPoint::default());
    take_back(own, &mut frame, &mut LENT.lock().harts[place]);
    // SAFETY: the frame is the OS's on this hart, whose call chain ends here.
    unsafe { entry::return_to(&frame, own.stack_top()) }
}

/// Lends the hart again at the end of a trap, if the weak hart has not ended its half.
#[cfg(feature = "hand-back")]
pub(crate) fn lend_again(hart: ThisHart, frame: &mut TrapFrame) {
    let Some(executor) = executor() else {
        return;
    };
    {
        let mut lent = LENT.lock();
        if !lent.half.is_open() || lent.lender != place_of(&hart) {
            return;
        }
        let others_run = hart::others().any(|other| other.state() != HsmState::Stopped);
        if !is_supervisor(frame) || others_run {
            lent.end = if others_run { End::Turn } else { End::User };
            return report(hart, &mut lent);
        }
    }
    hart.timer().set_machine_timer(NEVER);
    lend(executor, hart, frame);
}

/// Asks the weak hart, and rests until it is done. Returns false if it does not begin.
fn is_carried_out(executor: &Executor, hart: ThisHart) -> bool {
    let time = &platform().time;
    let latest = time.ticks() + time.ticks_in(PATIENCE_MS * 1_000_000);
    assert!(executor.ask.ask(), "one hart is lent");
    executor.ipi.send();
    while !executor.ask.is_done() {
        let is_asked = executor.ask.is_asked();
        if is_asked && time.ticks() >= latest && executor.ask.withdraw() {
            executor.is_lent.store(false, Ordering::Release);
            return false;
        }
        hart.timer()
            .rest_until(if is_asked { latest } else { NEVER });
        hart.handle_ipi();
    }
    true
}

/// Returns whether the frame's trap came from the OS itself: not from a program or a guest.
#[cfg(feature = "hand-back")]
fn is_supervisor(frame: &TrapFrame) -> bool {
    use poorwill_arch::csr::status;
    let mode = frame.mstatus as u64 & (status::MPP | status::MPV);
    mode == status::MPP_SUPERVISOR
}

/// Ends the half, and tells the domain.
fn report(hart: ThisHart, lent: &mut Lent) {
    let mut counts = Counts::default();
    let mut harts = 0;
    for own in lent
        .harts
        .iter_mut()
        .map(|hart| core::mem::take(&mut hart.counts))
    {
        harts += u32::from(own.instructions > 0);
        counts.instructions += own.instructions;
        counts.translated += own.translated;
        counts.device_accesses += own.device_accesses;
        counts.interrupts += own.interrupts;
        counts.exceptions += own.exceptions;
    }
    let end = match lent.end {
        End::User => "user",
        End::Call => "call",
        End::Unknown => "instruction",
        End::Late => "late",
        End::Turn => "turn",
    };
    let Half {
        began,
        hand_backs,
        own,
    } = lent.half.end();
    let domain = hart.domain();
    if hand_backs > 0 {
        domain.say(format_args!("executor hand_backs={hand_backs}"));
    }
    domain.say(format_args!(
        "executor harts={harts} instructions={} translated={} own={own} mmio={} interrupts={} exceptions={} ms={} end={end}",
        counts.instructions,
        counts.translated,
        counts.device_accesses,
        counts.interrupts,
        counts.exceptions,
        platform().time.milliseconds_since(began),
    ));
}
