//! Sleep with the RAM powered: the hart that called waits in machine mode, the
//! others are stopped and wait as they do. Devices are as the OS left them.

use poorwill_sleep::retain::{Signals, Sleeper, Source};

use crate::arch::csr::{self, interrupt};
use crate::hart::ThisHart;
use crate::platform::time::HeldTimer;
use crate::platform::{console, platform};

/// Interrupts that are the OS's own.
const OF_THE_OS: u64 = interrupt::SSI | interrupt::STI | interrupt::SEI | interrupt::LCOFI;

/// How often somebody may have typed who is to wait no longer than that.
const LOOK_EVERY_MS: u64 = 100;

/// The hart that rests for the machine.
pub(super) struct Resting {
    hart: ThisHart,
    timer: HeldTimer,
    /// `mie` as the OS left it.
    enabled: u64,
}

impl Resting {
    /// It rests from now on.
    pub(super) fn begin(hart: ThisHart) -> Self {
        Resting {
            hart,
            timer: HeldTimer::hold(hart.timer()),
            enabled: csr::read::<{ csr::MIE }>(),
        }
    }

    /// Leaves the hart as the OS expects it.
    pub(super) fn end(self) {
        // SAFETY: what it was; the timer's own bit is set with the timer.
        unsafe { csr::write::<{ csr::MIE }>(self.enabled & !interrupt::MTI) };
        self.timer.give_back();
    }

    fn interrupted(&self) -> Option<Source> {
        let come = csr::read::<{ csr::MIP }>() & self.enabled & OF_THE_OS;
        if come & interrupt::STI != 0 {
            return Some(Source::Timer);
        }
        (come != 0).then_some(Source::Interrupt)
    }
}

impl Sleeper for Resting {
    fn now(&self) -> u64 {
        platform().time.ticks()
    }

    fn look(&mut self) -> Signals {
        // Nobody has asked for anything: the other harts are stopped.
        self.hart.handle_ipi();
        let time = &platform().time;
        let now = time.ticks();
        self.timer.ring_if_due(now);
        let alarm = time.alarm_in();
        let line = console::line_events();
        let wake = self
            .interrupted()
            .or((alarm == Some(0)).then_some(Source::Alarm))
            .or(line.input.then_some(Source::Console));
        let timer = (self.enabled & interrupt::STI != 0)
            .then(|| self.timer.due())
            .flatten();
        Signals {
            wake,
            due: alarm
                .map(|left| now.saturating_add(left))
                .into_iter()
                .chain(timer)
                .min(),
            battery_low: line.line_break,
        }
    }

    fn rest(&mut self, until: u64) {
        self.timer.rest(self.enabled, until);
    }

    fn look_every(&self) -> Option<u64> {
        let ticks = platform().time.ticks_in(LOOK_EVERY_MS * 1_000_000);
        console::is_there().then_some(ticks)
    }
}
