//! Sleep with the RAM powered (*retain*): what ends it, and when it becomes a
//! sleep with the power off (*staged*).
//!
//! The machine rests. When it stirs, the platform ([`Sleeper`]) looks for events, and
//! [`decide`] chooses: it wakes, it is saved, or it rests on. The platform chooses how deeply
//! it rests. The decision is here, where it can be tried without hardware.

use core::fmt;

/// A machine in retain, as its platform sees it. Times are ticks of its own
/// counter.
pub trait Sleeper {
    /// The time now.
    fn now(&self) -> u64;

    /// What has come since the last look.
    fn look(&mut self) -> Signals;

    /// Rests until `until`, or until something happens that may be a signal.
    /// It may return at any time for no reason. This is where a platform has its
    /// deeper states; waiting for an interrupt is the least that it can do.
    fn rest(&mut self, until: u64);

    /// Ticks after which the machine is looked at although nothing stirred it,
    /// for signals that stir nothing; `None` where all of them do.
    fn look_every(&self) -> Option<u64>;
}

/// What may have come while the machine rested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// What is to wake the machine, if anything.
    pub wake: Option<Source>,
    /// When the next such thing falls due, as far as is known: the OS's timer, or
    /// the alarm of the clock.
    pub due: Option<u64>,
    /// There is not power enough to go on resting for long.
    pub battery_low: bool,
}

/// What a platform sees of itself at a look. Times are as in [`Sleeper`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The time.
    pub now: u64,
    /// The OS's timer has rung.
    pub timer: bool,
    /// An interrupt that the OS left enabled is pending, other than its timer's.
    pub interrupt: bool,
    /// When the OS's timer rings, if it is set and may wake.
    pub timer_due: Option<u64>,
    /// Ticks until the clock's alarm, 0 if it has fallen due; `None` without one.
    pub alarm_in: Option<u64>,
    /// Somebody typed on the console.
    pub typed: bool,
    /// There is not power enough to go on resting for long.
    pub battery_low: bool,
    /// The power fails: the OS goes on, for the instant at which it is cut.
    pub power_fails: bool,
}

impl Signals {
    /// The signals of a platform's observation. Of several events the OS's own are named
    /// first: the OS will look for those.
    #[must_use]
    pub fn of(observed: &Observed) -> Self {
        let alarm_due = observed.alarm_in == Some(0);
        let wake = [
            (observed.timer, Source::Timer),
            (observed.interrupt, Source::Interrupt),
            (alarm_due, Source::Alarm),
            (observed.typed, Source::Console),
            (observed.power_fails, Source::PowerFail),
        ];
        let alarm = observed.alarm_in;
        let alarm = alarm.map(|left| observed.now.saturating_add(left));
        Signals {
            wake: wake
                .into_iter()
                .find_map(|(has_come, source)| has_come.then_some(source)),
            due: alarm.into_iter().chain(observed.timer_due).min(),
            battery_low: observed.battery_low,
        }
    }
}

/// What wakes a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The OS's timer.
    Timer,
    /// The alarm of the clock.
    Alarm,
    /// Somebody typed on the console.
    Console,
    /// An interrupt that the OS left enabled.
    Interrupt,
    /// The power-fail line.
    PowerFail,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Timer => "timer",
            Source::Alarm => "alarm",
            Source::Console => "console",
            Source::Interrupt => "interrupt",
            Source::PowerFail => "power-fail",
        })
    }
}

/// Why a machine goes on to a sleep with the power off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The delay is over.
    Delay,
    /// The battery is low.
    Battery,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Delay => "delay",
            Cause::Battery => "battery",
        })
    }
}

/// How a machine's rest ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It wakes.
    Woken(Source),
    /// It is to be saved, and its power switched off.
    Staged(Cause),
}

/// What a machine that was looked at does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It rests, at most until then.
    Rest(u64),
    /// It rests no longer.
    End(End),
}

/// What a machine does next that shows `signals` at `now`. `stage_at` is when it
/// is to be saved; `None` for one that is not to be, and rests until it is woken.
///
/// What wakes comes first: an OS that has something to do would only be woken
/// again, from the medium.
#[must_use]
pub fn decide(signals: &Signals, now: u64, stage_at: Option<u64>) -> Next {
    if let Some(source) = signals.wake {
        return Next::End(End::Woken(source));
    }
    if let Some(stage_at) = stage_at {
        if signals.battery_low {
            return Next::End(End::Staged(Cause::Battery));
        }
        if now >= stage_at {
            return Next::End(End::Staged(Cause::Delay));
        }
    }
    // What was due and has woken nothing is not going to.
    let due = signals.due.filter(|due| *due > now);
    let next = [due, stage_at].into_iter().flatten().min();
    Next::Rest(next.unwrap_or(u64::MAX))
}

/// Rests until something ends it. `stage_at` is as in [`decide`].
pub fn retain(machine: &mut dyn Sleeper, stage_at: Option<u64>) -> End {
    loop {
        let signals = machine.look();
        let now = machine.now();
        match decide(&signals, now, stage_at) {
            Next::End(end) => return end,
            Next::Rest(until) => {
                let look = machine.look_every().map(|ticks| now.saturating_add(ticks));
                machine.rest(look.unwrap_or(u64::MAX).min(until));
            }
        }
    }
}

#[cfg(test)]
mod tests;
