//! The suspend half: all running harts of the OS lend their states at once, each at the end of a trap.

use poorwill_hart::{Arrived, HsmState, Others};
use poorwill_translate::{Half, Kind};

use super::lend::{give, lend, ready, wait};
use super::lent::{Executor, LENT, executor};
use super::report::report;
use super::trigger::disarm;
use crate::entry::TrapFrame;
use crate::hart::{self, ThisHart, place_of};
use crate::platform::platform;

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
    let others = OtherHarts {
        own: hart,
        began: platform().time.ticks(),
    };
    if let Err(reason) = executor.gathering.gather(&others) {
        let line = format_args!("executor lends no suspend half: {reason}");
        return hart.domain().say(line);
    }
    {
        let mut lent = LENT.lock();
        if lent.half.is_open() {
            report(&mut lent);
        }
        lent.half = Half::begin(Kind::Suspend, platform().time.ticks());
    }
    lend(executor, hart, frame)
}

/// The other harts of the OS, as the calling one finds them.
struct OtherHarts {
    own: ThisHart,
    /// `time` at the call.
    began: u64,
}

impl Others for OtherHarts {
    fn running(&self) -> u32 {
        let all = hart::all().iter().enumerate();
        let running =
            all.filter(|(_, hart)| !self.own.is(hart) && hart.state() != HsmState::Stopped);
        running.fold(0, |bits, (place, _)| bits | 1 << place)
    }

    fn ring(&self, harts: u32) {
        let all = hart::all().iter().enumerate();
        all.filter(|(place, _)| harts >> place & 1 != 0)
            .for_each(|(_, hart)| hart.ring());
    }

    fn serve(&self) -> u64 {
        self.own.handle_ipi();
        platform().time.milliseconds_since(self.began)
    }
}

/// Lends the calling hart's state with the others. Returns if that was called off.
fn come(executor: &Executor, hart: ThisHart, frame: &TrapFrame) {
    let gathering = &executor.gathering;
    if !frame.is_of_supervisor() {
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
