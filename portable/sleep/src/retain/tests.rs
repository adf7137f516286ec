//! Rests that end for one reason or another.

use std::vec::Vec;

use proptest::option;
use proptest::prelude::*;

use super::*;

/// A machine on which things come at certain times.
struct Fake {
    now: u64,
    timer: Option<u64>,
    key: Option<u64>,
    battery_low: Option<u64>,
    /// Times at which it stirs for nothing.
    spurious: Vec<u64>,
    rests: u32,
}

/// Ticks between looks.
const LOOK: u64 = 10;

impl Fake {
    const IDLE: Fake = Fake {
        now: 100,
        timer: None,
        key: None,
        battery_low: None,
        spurious: Vec::new(),
        rests: 0,
    };

    fn has_come(&self, at: Option<u64>) -> bool {
        at.is_some_and(|at| at <= self.now)
    }
}

impl Sleeper for Fake {
    fn now(&self) -> u64 {
        self.now
    }

    fn look(&mut self) -> Signals {
        let wake = match (self.has_come(self.timer), self.has_come(self.key)) {
            (true, _) => Some(Source::Timer),
            (false, true) => Some(Source::Console),
            (false, false) => None,
        };
        Signals {
            wake,
            due: self.timer,
            battery_low: self.has_come(self.battery_low),
        }
    }

    fn rest(&mut self, until: u64) {
        assert!(until > self.now, "it is not to spin");
        let stirs = self.spurious.iter().copied().filter(|at| *at > self.now);
        self.now = stirs.chain([until]).min().unwrap();
        self.rests += 1;
        assert!(self.rests < 10_000, "nothing ends this");
    }

    fn look_every(&self) -> Option<u64> {
        Some(LOOK)
    }
}

#[test]
fn the_timer_wakes_when_it_falls_due() {
    let mut machine = Fake {
        timer: Some(555),
        ..Fake::IDLE
    };
    assert_eq!(retain(&mut machine, None), End::Woken(Source::Timer));
    assert_eq!(machine.now, 555);
}

#[test]
fn what_has_come_already_wakes_at_once() {
    let mut machine = Fake {
        timer: Some(1),
        battery_low: Some(1),
        ..Fake::IDLE
    };
    assert_eq!(retain(&mut machine, Some(0)), End::Woken(Source::Timer));
    assert_eq!(machine.rests, 0);
}

#[test]
fn the_delay_ends_a_staged_sleep() {
    let mut machine = Fake::IDLE;
    assert_eq!(retain(&mut machine, Some(777)), End::Staged(Cause::Delay));
    assert_eq!(machine.now, 777);
}

#[test]
fn a_low_battery_ends_a_staged_sleep_and_no_other() {
    let low = || Fake {
        battery_low: Some(200),
        key: Some(1000),
        ..Fake::IDLE
    };
    let staged = retain(&mut low(), Some(u64::MAX));
    assert_eq!(staged, End::Staged(Cause::Battery));
    assert_eq!(retain(&mut low(), None), End::Woken(Source::Console));
}

#[test]
fn without_looks_it_rests_until_something_is_due() {
    let signals = Signals {
        due: Some(50),
        ..Signals::default()
    };
    assert_eq!(decide(&signals, 10, None), Next::Rest(50));
    assert_eq!(decide(&signals, 10, Some(40)), Next::Rest(40));
    assert_eq!(decide(&signals, 50, Some(90)), Next::Rest(90));
    assert_eq!(decide(&Signals::default(), 10, None), Next::Rest(u64::MAX));
}

proptest! {
    /// Whatever comes first ends the rest, no later than at the next look,
    /// however often it is disturbed.
    #[test]
    fn the_first_to_come_ends_it(
        timer in option::of(101_u64..2000),
        key in option::of(101_u64..2000),
        battery_low in option::of(101_u64..2000),
        stage_at in option::of(101_u64..2000),
        spurious in prop::collection::vec(101_u64..2000, 0..20),
    ) {
        let first = match stage_at {
            Some(_) => [timer, key, battery_low, stage_at],
            None => [timer, key, None, None],
        }.into_iter().flatten().min();
        prop_assume!(first.is_some());
        let first = first.unwrap();
        let mut machine = Fake { timer, key, battery_low, spurious, ..Fake::IDLE };
        let end = retain(&mut machine, stage_at);
        prop_assert!((first..=first + LOOK).contains(&machine.now));
        match end {
            End::Woken(Source::Timer) => prop_assert!(machine.has_come(timer)),
            End::Woken(source) => {
                prop_assert_eq!(source, Source::Console);
                prop_assert!(machine.has_come(key));
            }
            End::Staged(cause) => {
                prop_assert!(!machine.has_come(timer) && !machine.has_come(key));
                match cause {
                    Cause::Delay => prop_assert!(machine.has_come(stage_at)),
                    Cause::Battery => prop_assert!(
                        machine.has_come(battery_low) && stage_at.is_some()
                    ),
                }
            }
        }
    }
}

#[test]
fn the_oss_own_signals_are_named_first() {
    let mut observed = Observed {
        now: 100,
        timer: true,
        interrupt: true,
        alarm_in: Some(0),
        typed: true,
        ..Observed::default()
    };
    let wake = |observed: &Observed| Signals::of(observed).wake;
    assert_eq!(wake(&observed), Some(Source::Timer));
    observed.timer = false;
    assert_eq!(wake(&observed), Some(Source::Interrupt));
    observed.interrupt = false;
    assert_eq!(wake(&observed), Some(Source::Alarm));
    observed.alarm_in = Some(1);
    assert_eq!(wake(&observed), Some(Source::Console));
    observed.typed = false;
    assert_eq!(wake(&observed), None);
    observed.alarm_in = None;
    assert_eq!(wake(&observed), None);
}

#[test]
fn what_falls_due_first_counts() {
    let due = |alarm_in, timer_due| {
        let observed = Observed {
            now: 100,
            alarm_in,
            timer_due,
            ..Observed::default()
        };
        Signals::of(&observed).due
    };
    assert_eq!(due(None, None), None);
    assert_eq!(due(Some(20), None), Some(120));
    assert_eq!(due(None, Some(110)), Some(110));
    assert_eq!(due(Some(20), Some(110)), Some(110));
    assert_eq!(due(Some(20), Some(130)), Some(120));
    assert_eq!(due(Some(u64::MAX), None), Some(u64::MAX));
}

#[test]
fn a_low_battery_is_told_and_wakes_nobody() {
    let observed = Observed {
        battery_low: true,
        ..Observed::default()
    };
    let signals = Signals::of(&observed);
    assert!(signals.battery_low && signals.wake.is_none() && signals.due.is_none());
    assert!(!Signals::of(&Observed::default()).battery_low);
}
