//! The arithmetic of the fair time base.
//!
//! One instruction takes one nanosecond, at each hart. Time moves in windows of at most a quantum.
//! A hart that has executed its share of the window waits until each other hart has, or is idle.
//! Then the window moves. A woken hart starts at the time of its wake. When all harts are idle,
//! time jumps to the next event.
//!
//! QEMU's generated code counts each hart's instructions, and compares the counter with a constant,
//! [`FULL`]. So each move of the window sets the counter to [`FULL`] minus the instructions that
//! the hart may execute.

/// The counter's value of a hart that has executed its share of the window.
pub const FULL: u64 = 1 << 40;

/// The latest time to which the clock jumps, in nanoseconds: 146 years. QEMU places a timer that
/// never rings at the end of its clock, and adds to the clock without a check for overflow. After a
/// jump to that end, such timers would always be due.
const LAST_JUMP: i64 = i64::MAX / 2;

/// The longest window, in instructions. A shorter one costs more time. With a longer one, harts see
/// each other's stores later.
pub const QUANTUM: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Has not executed its share yet.
    Running,
    /// Has executed its share of the window with that number, and waits for its end.
    Waiting(u64),
    /// Waits for an interrupt.
    Idle,
    /// Has a pending interrupt, and will run.
    Waking,
}

#[derive(Clone, Copy, Debug)]
struct Hart {
    state: State,
    /// The counter's value when it was last set.
    set_to: u64,
    limit: u64,
    /// Instructions executed before the counter was set.
    before: u64,
    /// The hart's own time when it became idle.
    own: u64,
}

/// What a hart does next when its counter is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It runs on, with its counter set to this value.
    GoOn(u64),
    /// It lets other harts run.
    Yield,
    /// It was the last hart of the window. The caller moves the window, and asks again.
    MoveWindow,
}

/// What the caller does after a hart became idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BecameIdle {
    /// Nothing: other harts run.
    OthersRun,
    /// It moves the window: all other harts have executed their share or are idle.
    MoveWindow,
    /// It advances the time to the next event: all harts are idle.
    AllIdle,
}

/// A point in the model's history. If two are equal, no hart ran between them.
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
    /// Starts at time 0, with `harts` running harts. The first window ends before `event`.
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

    /// The initial value of each hart's counter.
    #[must_use]
    pub fn first_counter(&self) -> u64 {
        FULL - self.end
    }

    /// Start of the window: the machine's time.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// End of the window.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Executed instructions of a hart.
    #[must_use]
    pub fn instructions(&self, hart: usize, counter: u64) -> u64 {
        let hart = &self.harts[hart];
        hart.before + counter.saturating_sub(hart.set_to)
    }

    /// A hart's own time: within the window, or up to a block past it. For an idle hart it is the
    /// machine's time.
    #[must_use]
    pub fn own_time(&self, hart: usize, counter: u64) -> u64 {
        let hart = &self.harts[hart];
        match hart.state {
            State::Idle | State::Waking => self.now.max(hart.own),
            State::Running | State::Waiting(_) => hart.limit + counter - FULL,
        }
    }

    /// Sets a hart's counter, so that it reaches [`FULL`] at the window's end.
    fn set(&mut self, hart: usize, counter: u64, own: u64) -> u64 {
        let before = self.instructions(hart, counter);
        let hart = &mut self.harts[hart];
        hart.before = before;
        hart.limit = self.end;
        hart.set_to = FULL + own - self.end;
        hart.set_to
    }

    /// Whether a hart waits for an interrupt, or has one and has not run since.
    #[must_use]
    pub fn is_idle(&self, hart: usize) -> bool {
        matches!(self.harts[hart].state, State::Idle | State::Waking)
    }

    fn is_busy(&self) -> bool {
        let mut states = self.harts.iter().map(|hart| hart.state);
        states.any(|state| matches!(state, State::Running | State::Waking))
    }

    /// The next action of a hart whose counter has reached [`FULL`].
    pub fn reached(&mut self, hart: usize, mut counter: u64) -> Reached {
        let mut own = self.own_time(hart, counter);
        if self.is_idle(hart) {
            own = own.min(self.end);
            counter = self.set(hart, counter, own);
            self.harts[hart].state = State::Running;
        }
        if own < self.end {
            self.harts[hart].state = State::Running;
            return Reached::GoOn(self.set(hart, counter, own));
        }
        if self.harts[hart].state == State::Waiting(self.window) {
            // Each other hart had its turn. A hart that was interrupted and did not run stays idle.
            self.settle(|_| true);
        }
        self.harts[hart].state = State::Waiting(self.window);
        if self.is_busy() {
            Reached::Yield
        } else {
            Reached::MoveWindow
        }
    }

    /// Makes each interrupted hart that did not run, and that is meant, idle again.
    pub fn settle(&mut self, is_meant: impl Fn(usize) -> bool) {
        for (number, hart) in self.harts.iter_mut().enumerate() {
            if hart.state == State::Waking && is_meant(number) {
                hart.state = State::Idle;
            }
        }
    }

    /// Marks a hart as idle, as it is about to wait for an interrupt. The caller sets its counter
    /// to [`FULL`], so that the plugin notices its next run. `None`: the hart is idle already.
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

    /// Marks an idle hart as waking: it has a pending interrupt.
    pub fn interrupted(&mut self, hart: usize) {
        let state = &mut self.harts[hart].state;
        if *state == State::Idle {
            *state = State::Waking;
        }
    }

    /// Moves the time to the window's end.
    pub fn arrive(&mut self) {
        self.now = self.end;
    }

    /// Moves the time to `time`. All harts must be idle.
    pub fn jump(&mut self, time: u64) {
        self.now = self.now.max(time);
        self.end = self.now;
    }

    /// Opens the next window, which ends at `event` at the latest.
    pub fn open(&mut self, event: Option<u64>) {
        self.end = window_end(self.now, event);
        self.window += 1;
        for hart in &mut self.harts {
            if let State::Waiting(_) = hart.state {
                hart.state = State::Running;
            }
        }
    }

    /// Whether all harts are idle, and no hart is waking.
    #[must_use]
    pub fn is_all_idle(&self) -> bool {
        self.harts.iter().all(|hart| hart.state == State::Idle)
    }

    /// Whether no hart runs; some may be waking.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let mut states = self.harts.iter().map(|hart| hart.state);
        states.all(|state| matches!(state, State::Idle | State::Waking))
    }

    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp {
            window: self.window,
            idled: self.idled,
        }
    }
}

/// The time to which the clock jumps from `clock` while all harts are idle: QEMU's next timer,
/// `deadline` after `clock`, or `event`. `None`: there is neither.
#[must_use]
pub fn next_jump(clock: i64, deadline: Option<u64>, event: Option<u64>) -> Option<i64> {
    let timer = deadline.map(|deadline| clock.saturating_add_unsigned(deadline));
    let event = event.map(clock_time);
    let next = timer.into_iter().chain(event).min()?;
    (next <= LAST_JUMP).then_some(next.max(clock))
}

/// Converts a time to QEMU's type, which reaches 292 years.
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
        // The hart wakes at the window's start, not at its own last time.
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
        // QEMU's deadline if the only timer never rings.
        let end = i64::MAX.unsigned_abs();
        assert_eq!(next_jump(1000, Some(end - 1000), None), None);
        assert_eq!(next_jump(1000, Some(end), Some(u64::MAX)), None);
        assert_eq!(next_jump(1000, Some(end - 1000), Some(1020)), Some(1020));
        let year = 365 * 86400 * 1_000_000_000;
        assert!(next_jump(1000, Some(100 * year), None).is_some());
        assert_eq!(next_jump(1000, Some(200 * year), None), None);
    }

    /// A hart of the test's model, which executes blocks of some instructions in turn.
    #[derive(Clone, Copy)]
    struct Model {
        counter: u64,
        executed: u64,
    }

    proptest! {
        /// Harts that never idle are at most a quantum and a block apart, for blocks and turns of
        /// any length. Each instruction is counted.
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
