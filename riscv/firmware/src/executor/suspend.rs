//! The suspend half: all running harts of the OS lend their states at once, each at the end of a trap.

use poorwill_arch::csr::status;
use poorwill_hart::{Arrived, HsmState};
use thiserror::Error;

use super::lend::{give, lend, ready, wait};
use super::lent::{Executor, Half, Kind, LENT, executor};
use super::report::report;
use super::trigger::disarm;
use crate::entry::TrapFrame;
use crate::hart::{self, Hart, ThisHart, place_of};
use crate::platform::platform;

/// Maximum wait for the other harts to leave the OS. A virtual machine's hart may pause meanwhile.
const ARRIVE_MS: u64 = 1000;

/// Time between two interrupts of a hart: one that starts may have cleared the first.
const AGAIN_MS: u64 = 1;

/// Maximum wait for the states of harts that have left the OS, after which the machine is reset. They
/// take microseconds.
const GIVE_MS: u64 = 60_000;

/// Why the harts of an OS are not lent.
#[derive(Clone, Copy, Debug, Error)]
enum NotLent {
    /// Another hart begins it.
    #[error("another hart begins one")]
    Called,
    /// A hart runs a program or a guest.
    #[error("another hart is not in the OS")]
    Outside,
    /// A hart does not leave the OS.
    #[error("hart {0} does not answer")]
    Late(u64),
}

/// Ends a trap of the OS. If the hart's trigger `fires`, the suspend half begins; otherwise the hart
/// lends its state if another one begins it. Returns if the OS continues here.
pub(crate) fn end_trap(hart: ThisHart, frame: &TrapFrame, fires: bool) {
    let Some(executor) = executor() else {
        return;
    };
    if fires {
        disarm(executor, hart);
        begin(hart, frame);
    }
    if executor.gathering.is_called() {
        come(executor, hart, frame);
    }
}

/// Begins the suspend half. Returns if that is not possible.
fn begin(hart: ThisHart, frame: &TrapFrame) {
    let Some(executor) = ready(hart) else {
        return;
    };
    if let Err(reason) = gather(executor, hart) {
        let line = format_args!("executor lends no suspend half: {reason}");
        return hart.domain().say(line);
    }
    {
        let mut lent = LENT.lock();
        if lent.half.is_open() {
            report(hart, &mut lent);
        }
        lent.half = Half::begin(Kind::Suspend, platform().time.ticks());
    }
    lend(executor, hart, frame)
}

/// Gathers the other harts that run the OS. They have lent their states afterwards.
fn gather(executor: &Executor, own: ThisHart) -> Result<(), NotLent> {
    let gathering = &executor.gathering;
    if !gathering.call() {
        return Err(NotLent::Called);
    }
    let time = &platform().time;
    let began = time.ticks();
    let mut asked_ms = None;
    while let Some(hart) = not_arrived(executor, own).next() {
        let waited_ms = time.milliseconds_since(began);
        if gathering.next() == Arrived::Continues {
            return Err(NotLent::Outside);
        }
        if waited_ms >= ARRIVE_MS {
            gathering.end();
            return Err(NotLent::Late(hart.id()));
        }
        if asked_ms.is_none_or(|asked| waited_ms >= asked + AGAIN_MS) {
            asked_ms = Some(waited_ms);
            not_arrived(executor, own).for_each(Hart::ring);
        }
        own.handle_ipi();
        core::hint::spin_loop();
    }
    gathering.give();
    while gathering.arrived() != 0 {
        own.handle_ipi();
        let is_late = time.milliseconds_since(began) >= GIVE_MS;
        assert!(!is_late, "a hart of the OS does not lend its state");
        core::hint::spin_loop();
    }
    gathering.end();
    Ok(())
}

/// The other harts that run the OS, or will. The look at the states comes last: a hart that has not
/// arrived may start another.
fn not_arrived(executor: &Executor, own: ThisHart) -> impl Iterator<Item = &'static Hart> {
    let arrived = executor.gathering.arrived();
    let others = hart::all().iter().enumerate();
    others
        .filter(move |(place, hart)| !own.is(hart) && arrived >> place & 1 == 0)
        .filter(|(_, hart)| hart.state() != HsmState::Stopped)
        .map(|(_, hart)| hart)
}

/// Lends the calling hart's state with the others. Returns if that was called off.
fn come(executor: &Executor, hart: ThisHart, frame: &TrapFrame) {
    let gathering = &executor.gathering;
    if !is_supervisor(frame) {
        return gathering.end();
    }
    let place = place_of(&hart);
    gathering.arrive(place);
    loop {
        hart.handle_ipi();
        match gathering.next() {
            Arrived::Waits => core::hint::spin_loop(),
            Arrived::Gives => break,
            Arrived::Continues => return gathering.leave(place),
        }
    }
    give(executor, hart, frame);
    gathering.leave(place);
    wait(executor, hart, place)
}

/// Returns whether the frame's trap came from the OS itself: not from a program or a guest.
pub(super) fn is_supervisor(frame: &TrapFrame) -> bool {
    let mode = frame.mstatus as u64 & (status::MPP | status::MPV);
    mode == status::MPP_SUPERVISOR
}
