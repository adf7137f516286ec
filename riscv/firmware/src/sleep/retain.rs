//! Sleep with powered RAM. The calling hart waits in machine mode, and the others of its domain stay
//! stopped. Devices keep the OS's settings.

use poorwill_arch::{HeldTimer, csr, uninterrupted};
use poorwill_drivers::uart::LineEvents;
use poorwill_hart::interrupt::Pending;
use poorwill_sleep::retain::{Observed, Signals, Sleeper};

use crate::domain::LiveDomain;
use crate::hart::{ThisHart, resting};
use crate::platform::{console, platform, power_fail};

/// Time between two checks for a key.
const LOOK_EVERY_MS: u64 = 100;

/// The hart that waits for a wake event.
pub(super) struct Resting {
    hart: ThisHart,
    timer: HeldTimer,
}

impl Resting {
    /// Runs `job` with the calling hart at rest. It ends with the hart's state restored for the OS.
    pub(super) fn run<R>(hart: ThisHart, job: impl FnOnce(&mut Resting) -> R) -> R {
        uninterrupted(|| {
            let mut resting = Resting {
                hart,
                timer: HeldTimer::hold(hart.timer()),
            };
            let has_console = hart.domain().has_console;
            if has_console {
                console::open_input();
            }
            let result = job(&mut resting);
            if has_console {
                console::close_input();
            }
            resting.timer.give_back();
            result
        })
    }

    pub(super) fn domain(&self) -> &'static LiveDomain {
        self.hart.domain()
    }

    /// Rests until another hart interrupts, regardless of the OS's wake events. Does what that one
    /// asks for, with the OS's timer and interrupts as the OS left them.
    pub(super) fn serve(&mut self) {
        let timer = self.hart.timer();
        let was_asked = resting::answer(self.domain(), || self.timer.give_back());
        match was_asked {
            true => self.timer = HeldTimer::hold(timer),
            false => self.timer.rest_deep(),
        }
        self.hart.handle_ipi();
    }
}

impl Sleeper for Resting {
    fn now(&self) -> u64 {
        platform().time.ticks()
    }

    fn look(&mut self) -> Signals {
        // There are no requests to serve, since the domain's other harts are stopped.
        self.hart.handle_ipi();
        let time = &platform().time;
        let now = time.ticks();
        self.timer.ring_if_due(now);
        let line = match self.domain().has_console {
            true => console::line_events(),
            false => LineEvents::default(),
        };
        let pending = Pending::of(csr::read::<{ csr::MIP }>(), self.timer.enabled());
        Signals::of(&Observed {
            now,
            timer: pending.timer,
            interrupt: pending.other,
            timer_due: self.timer.due(),
            // Domains read the clock by mediation, and set no alarm.
            alarm_in: match platform().clock_page {
                Some(_) => None,
                None => time.alarm_in(),
            },
            typed: line.input,
            battery_low: line.line_break,
            power_fails: power_fail::noticed(),
        })
    }

    fn rest(&mut self, until: u64) {
        self.timer.rest(until);
    }

    fn look_every(&self) -> Option<u64> {
        let ticks = platform().time.ticks_in(LOOK_EVERY_MS * 1_000_000);
        let has_console = self.domain().has_console && console::is_there();
        has_console.then_some(ticks)
    }
}
