//! Sleep with powered RAM (*retain*): its wake events, and the change to a sleep without power
//! (*staged*).
//!
//! The machine rests. After each rest the platform ([`Sleeper`]) looks for signals, and [`decide`]
//! chooses: wake, save, or rest again. The platform chooses the depth of the rest. The decision is
//! here, so that host tests can check it.

use core::fmt;

/// A retaining machine, as its platform sees it. Times are ticks of its counter.
pub trait Sleeper {
    /// The current time.
    fn now(&self) -> u64;

    /// The signals since the last look.
    fn look(&mut self) -> Signals;

    /// Rests until `until`, or until a possible signal. It may return at any time without a reason.
    /// A platform uses its deeper states here; the least is a wait for an interrupt.
    fn rest(&mut self, until: u64);

    /// Ticks between two looks, for signals that do not end a rest; `None` if all signals do.
    fn look_every(&self) -> Option<u64>;
}

/// The signals of a retaining machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// The wake event, if there is one.
    pub wake: Option<Source>,
    /// The time of the next known wake event: the OS's timer, or the clock's alarm.
    pub due: Option<u64>,
    /// The battery has too little charge for a long rest.
    pub battery_low: bool,
}

/// The state that a platform observes in one look. Times are as in [`Sleeper`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The current time.
    pub now: u64,
    /// The OS's timer has expired.
    pub timer: bool,
    /// An interrupt is pending that the OS left enabled, other than its timer's.
    pub interrupt: bool,
    /// The deadline of the OS's timer, if it is set and may wake the OS.
    pub timer_due: Option<u64>,
    /// Ticks until the clock's alarm, 0 if it is overdue; `None` without an alarm.
    pub alarm_in: Option<u64>,
    /// The console has received a key.
    pub typed: bool,
    /// The battery has too little charge for a long rest.
    pub battery_low: bool,
    /// The power fails: the OS wakes, and is cut as it runs.
    pub power_fails: bool,
}

impl Signals {
    /// The signals of an observation. If there are several wake events, the OS's own come first,
    /// since the OS looks for them.
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

/// An event that ends a rest and wakes the OS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The OS's timer.
    Timer,
    /// The alarm of the clock.
    Alarm,
    /// A key on the console.
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

/// Why a retaining machine is saved.
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

/// The end of a rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It wakes.
    Woken(Source),
    /// The machine will be saved, and its power switched off.
    Staged(Cause),
}

/// The next step of a retaining machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It rests, at most until this time.
    Rest(u64),
    /// Its rest ends.
    End(End),
}

/// Decides the next step of a machine with these `signals` at `now`. `stage_at` is the time of its
/// save; `None` if it rests until a wake event.
///
/// A wake event precedes a save: otherwise it would wake the OS again at once, from the medium.
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
    // An event that is overdue but has not woken the machine will not do so later.
    let due = signals.due.filter(|due| *due > now);
    let next = [due, stage_at].into_iter().flatten().min();
    Next::Rest(next.unwrap_or(u64::MAX))
}

/// Rests until an end. `stage_at` is as in [`decide`].
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
