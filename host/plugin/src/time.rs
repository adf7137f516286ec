//! The arithmetic of the fair time base.
//!
//! One instruction is one nanosecond, at every hart. Time moves in windows of at most a
//! quantum: a hart that has executed its share of the window waits until all others have
//! executed theirs, or are idle; then the window moves. An idle hart that is woken
//! starts at the time at which it is woken. When all are idle, time jumps.
//!
//! Each hart's instructions are counted by code that QEMU generates, in a counter that
//! is compared with one constant, [`FULL`]. So it is set back whenever the window moves,
//! to as much less as the hart may still execute.

/// Of a counter whose hart has executed its share of the window.
pub const FULL: u64 = 1 << 40;

/// The last time to which the clock jumps, in nanoseconds: 146 years. QEMU places a timer
/// that is never to ring at the end of its clock, and adds to the clock without a check: a
/// jump to that end would leave it with timers that are always due.
const LAST_JUMP: i64 = i64::MAX / 2;

/// The largest share, in instructions. Smaller ones cost more, larger ones let harts see
/// one another's stores later.
pub const QUANTUM: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Has not executed its share yet.
    Running,
    /// Has, and waits; since the window of that number.
    Waiting(u64),
    /// Waits for an interrupt.
    Idle,
    /// Was interrupted, and will run.
    Waking,
}

#[derive(Clone, Copy, Debug)]
struct Hart {
    state: State,
    /// The counter when it was set last.
    set_to: u64,
    /// The end of the window that it was set for.
    limit: u64,
    /// Instructions before.
    before: u64,
    /// Its own time when it became idle.
    own: u64,
}

/// What a hart does that has executed its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// Goes on, with its counter set to this.
    GoOn(u64),
    /// Lets others run.
    Yield,
    /// Was the last: the window is to be moved, then it asks again.
    MoveWindow,
}

/// What follows from a hart's being idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BecameIdle {
    /// Others run.
    OthersRun,
    /// All others have executed their share: the window is to be moved.
    MoveWindow,
    /// All harts are idle.
    AllIdle,
}

/// A moment: if it is the same later, nothing happened in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    window: u64,
    idled: u64,
}

/// The time of all harts, in nanoseconds.
#[derive(Clone, Debug)]
pub struct TimeBase {
    harts: Vec<Hart>,
    now: u64,
    end: u64,
    window: u64,
    idled: u64,
}

impl TimeBase {
    /// At time 0, all of `harts` running; the first window ends before `event`.
    #[must_use]
    pub fn new(harts: usize, event: Option<u64>) -> Self {
        let end = window_end(0, event);
        let hart = Hart {
            state: State::Running,
            set_to: FULL - end,
            limit: end,
            before: 0,
            own: 0,
        };
        TimeBase {
            harts: vec![hart; harts],
            now: 0,
            end,
            window: 0,
            idled: 0,
        }
    }

    /// What each hart's counter begins with.
    #[must_use]
    pub fn first_counter(&self) -> u64 {
        FULL - self.end
    }

    /// The time at which the window began: that of the machine.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The time at which the window ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How many instructions a hart has executed.
    #[must_use]
    pub fn instructions(&self, hart: usize, counter: u64) -> u64 {
        let hart = &self.harts[hart];
        hart.before + counter.saturating_sub(hart.set_to)
    }

    /// A hart's own time: within the window, or a block's length beyond it. Of an idle
    /// hart, that of the machine.
    #[must_use]
    pub fn own_time(&self, hart: usize, counter: u64) -> u64 {
        let hart = &self.harts[hart];
        match hart.state {
            State::Idle | State::Waking => self.now.max(hart.own),
            State::Running | State::Waiting(_) => hart.limit + counter - FULL,
        }
    }

    /// Sets a hart's counter, so that it is full at the window's end.
    fn set(&mut self, hart: usize, counter: u64, own: u64) -> u64 {
        let before = self.instructions(hart, counter);
        let hart = &mut self.harts[hart];
        hart.before = before;
        hart.limit = self.end;
        hart.set_to = FULL + own - self.end;
        hart.set_to
    }

    fn is_busy(&self) -> bool {
        let mut states = self.harts.iter().map(|hart| hart.state);
        states.any(|state| matches!(state, State::Running | State::Waking))
    }

    /// A hart's counter is full.
    pub fn reached(&mut self, hart: usize, mut counter: u64) -> Reached {
        let mut own = self.own_time(hart, counter);
        if matches!(self.harts[hart].state, State::Idle | State::Waking) {
            own = own.min(self.end);
            counter = self.set(hart, counter, own);
            self.harts[hart].state = State::Running;
        }
        if own < self.end {
            self.harts[hart].state = State::Running;
            return Reached::GoOn(self.set(hart, counter, own));
        }
        if self.harts[hart].state == State::Waiting(self.window) {
            // All others had their turn: who was to wake and did not, sleeps on.
            self.settle();
        }
        self.harts[hart].state = State::Waiting(self.window);
        if self.is_busy() {
            Reached::Yield
        } else {
            Reached::MoveWindow
        }
    }

    /// Harts that were interrupted and did not run are idle after all.
    pub fn settle(&mut self) {
        for hart in &mut self.harts {
            if hart.state == State::Waking {
                hart.state = State::Idle;
            }
        }
    }

    /// A hart is about to wait for an interrupt: its counter is to be set to [`FULL`], so
    /// that it is noticed when it runs again. Nothing if it is idle already.
    pub fn became_idle(&mut self, hart: usize, counter: u64) -> Option<BecameIdle> {
        if self.harts[hart].state == State::Idle {
            return None;
        }
        let own = self.own_time(hart, counter);
        let before = self.instructions(hart, counter);
        self.idled += 1;
        self.harts[hart] = Hart {
            state: State::Idle,
            set_to: FULL,
            limit: own,
            before,
            own,
        };
        Some(if self.is_busy() {
            BecameIdle::OthersRun
        } else if self.is_all_idle() {
            BecameIdle::AllIdle
        } else {
            BecameIdle::MoveWindow
        })
    }

    /// A hart has an interrupt pending.
    pub fn interrupted(&mut self, hart: usize) {
        let state = &mut self.harts[hart].state;
        if *state == State::Idle {
            *state = State::Waking;
        }
    }

    /// Time arrives at the window's end.
    pub fn arrive(&mut self) {
        self.now = self.end;
    }

    /// Time arrives at `time`, all harts being idle.
    pub fn jump(&mut self, time: u64) {
        self.now = self.now.max(time);
        self.end = self.now;
    }

    /// Opens the next window, which ends no later than `event`.
    pub fn open(&mut self, event: Option<u64>) {
        self.end = window_end(self.now, event);
        self.window += 1;
        for hart in &mut self.harts {
            if let State::Waiting(_) = hart.state {
                hart.state = State::Running;
            }
        }
    }

    /// Whether all harts are idle, and none is waking.
    #[must_use]
    pub fn is_all_idle(&self) -> bool {
        self.harts.iter().all(|hart| hart.state == State::Idle)
    }

    /// Whether no hart runs, but for those that may be waking.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let mut states = self.harts.iter().map(|hart| hart.state);
        states.all(|state| matches!(state, State::Idle | State::Waking))
    }

    /// This moment.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp {
            window: self.window,
            idled: self.idled,
        }
    }
}

/// Where the clock, which shows `clock`, jumps to while all harts are idle: to QEMU's next
/// timer, which is `deadline` ahead, or to `event`, if either ever comes.
#[must_use]
pub fn next_jump(clock: i64, deadline: Option<u64>, event: Option<u64>) -> Option<i64> {
    let timer = deadline.map(|deadline| clock.saturating_add_unsigned(deadline));
    let event = event.map(clock_time);
    let next = timer.into_iter().chain(event).min()?;
    (next <= LAST_JUMP).then_some(next.max(clock))
}

/// A time as QEMU's clock has it: 292 years will do.
pub(crate) fn clock_time(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

fn window_end(now: u64, event: Option<u64>) -> u64 {
    let end = now + QUANTUM;
    match event {
        Some(event) if event > now => end.min(event),
        Some(_) | None => end,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_moves_the_window_and_what_was_too_much_counts() {
        let mut time = TimeBase::new(2, None);
        assert_eq!(time.first_counter(), FULL - QUANTUM);
        assert_eq!(time.reached(0, FULL + 7), Reached::Yield);
        assert_eq!(time.own_time(0, FULL + 7), 1007);
        assert_eq!(time.reached(1, FULL), Reached::MoveWindow);
        time.arrive();
        time.open(None);
        assert_eq!(time.reached(1, FULL), Reached::GoOn(FULL - QUANTUM));
        assert_eq!(time.reached(0, FULL + 7), Reached::GoOn(FULL - QUANTUM + 7));
        assert_eq!(time.instructions(0, FULL - QUANTUM + 10), 1010);
    }

    #[test]
    fn an_idle_hart_is_not_waited_for_until_it_is_interrupted() {
        let mut time = TimeBase::new(2, None);
        let idle = time.became_idle(1, FULL - QUANTUM + 10);
        assert_eq!(idle, Some(BecameIdle::OthersRun));
        assert_eq!(time.became_idle(1, FULL), None);
        assert_eq!(time.reached(0, FULL), Reached::MoveWindow);
        time.arrive();
        time.interrupted(1);
        time.open(None);
        assert_eq!(time.reached(0, FULL), Reached::GoOn(FULL - QUANTUM));
        assert_eq!(time.reached(0, FULL), Reached::Yield);
        // It wakes at the window's beginning, not at its own last time.
        assert_eq!(time.reached(1, FULL), Reached::GoOn(FULL - QUANTUM));
        assert_eq!(time.instructions(1, FULL - QUANTUM), 10);
    }

    #[test]
    fn who_does_not_wake_is_not_waited_for_twice() {
        let mut time = TimeBase::new(2, None);
        assert!(time.became_idle(1, FULL - 1).is_some());
        time.interrupted(1);
        assert_eq!(time.reached(0, FULL), Reached::Yield);
        assert_eq!(time.reached(0, FULL + 3), Reached::MoveWindow);
    }

    #[test]
    fn a_window_ends_at_an_event() {
        let mut time = TimeBase::new(1, Some(300));
        assert_eq!(time.reached(0, FULL), Reached::MoveWindow);
        time.arrive();
        assert_eq!(time.now(), 300);
        time.open(Some(300));
        assert_eq!(time.end(), 1300);
    }

    #[test]
    fn all_idle_jump_and_wake_then() {
        let mut time = TimeBase::new(1, None);
        let idle = time.became_idle(0, FULL - 900);
        assert_eq!(idle, Some(BecameIdle::AllIdle));
        let before = time.stamp();
        time.jump(5000);
        time.interrupted(0);
        time.open(None);
        assert!(time.stamp() != before && time.is_quiet() && !time.is_all_idle());
        assert_eq!(time.reached(0, FULL), Reached::GoOn(FULL - QUANTUM));
        assert_eq!(time.own_time(0, FULL - QUANTUM), 5000);
        assert_eq!(time.instructions(0, FULL - QUANTUM + 1), 101);
    }

    #[test]
    fn time_jumps_to_what_comes_first_and_never_to_its_end() {
        assert_eq!(next_jump(1000, Some(50), None), Some(1050));
        assert_eq!(next_jump(1000, None, Some(1020)), Some(1020));
        assert_eq!(next_jump(1000, Some(50), Some(1020)), Some(1020));
        assert_eq!(next_jump(1000, Some(0), Some(2000)), Some(1000));
        assert_eq!(next_jump(1000, None, Some(7)), Some(1000), "never back");
        assert_eq!(next_jump(1000, None, None), None);
        // QEMU's for a timer that never rings, at whatever time it is asked.
        let end = i64::MAX.unsigned_abs();
        assert_eq!(next_jump(1000, Some(end - 1000), None), None);
        assert_eq!(next_jump(1000, Some(end), Some(u64::MAX)), None);
        assert_eq!(next_jump(1000, Some(end - 1000), Some(1020)), Some(1020));
        let year = 365 * 86400 * 1_000_000_000;
        assert!(next_jump(1000, Some(100 * year), None).is_some());
        assert_eq!(next_jump(1000, Some(200 * year), None), None);
    }

    /// A hart of the model, which executes blocks of some instructions in turn.
    #[derive(Clone, Copy)]
    struct Model {
        counter: u64,
        executed: u64,
    }

    proptest! {
        /// Harts that never idle are never further apart than a quantum and a block,
        /// and every instruction is counted, whatever the lengths of blocks and turns.
        #[test]
        fn running_harts_stay_together(
            harts in 1..5_usize,
            turns in proptest::collection::vec((1..40_u64, 1..200_u32), 1..300),
            event in proptest::option::of(1..20_000_u64),
        ) {
            let mut time = TimeBase::new(harts, event);
            let counter = time.first_counter();
            let mut models = vec![Model { counter, executed: 0 }; harts];
            for (turn, (block, blocks)) in turns.into_iter().enumerate() {
                let hart = turn % harts;
                let model = &mut models[hart];
                'turn: for _ in 0..blocks {
                    while model.counter >= FULL {
                        match time.reached(hart, model.counter) {
                            Reached::GoOn(counter) => model.counter = counter,
                            Reached::Yield => break 'turn,
                            Reached::MoveWindow => {
                                time.arrive();
                                time.open(event);
                            }
                        }
                    }
                    model.counter += block;
                    model.executed += block;
                }
                for (hart, model) in models.iter().enumerate() {
                    prop_assert_eq!(time.instructions(hart, model.counter), model.executed);
                    prop_assert_eq!(time.own_time(hart, model.counter), model.executed);
                    prop_assert!(model.executed <= time.now() + QUANTUM + 40);
                    prop_assert!(turn < harts || model.executed >= time.now());
                }
            }
        }
    }
}
