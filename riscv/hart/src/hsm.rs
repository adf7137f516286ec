//! The state of a hart (SBI 3.0, chapter 9), and its permitted transitions.
//!
//! A cell has two views. [`RemoteHsm`] is for other harts: they read the state and start the hart.
//! [`LocalHsm`] is for the hart itself: all other transitions. No method writes an arbitrary state,
//! so only the edges of the specification's figure exist:
//!
//! ```text
//! Stopped -(remote)-> StartPending -> Started -> StopPending -> Stopped
//! Started -> SuspendPending -> Suspended -> ResumePending -> Started
//! ```
//!
//! There is no edge for stopping another hart:
//!
//! ```compile_fail
//! fn stop(other: &poorwill_hart::HsmCell) {
//!     other.remote().stop();
//! }
//! ```
//!
//! A hart cannot start itself without a task:
//!
//! ```compile_fail
//! fn started(own: &poorwill_hart::HsmCell) {
//!     own.local().started();
//! }
//! ```
//!
//! # Ordering
//!
//! A hart's task lies beside its state. The starter first claims the state: Acquire orders the
//! claim after the last start's read of the task. Then it writes the task, and releases it with the
//! state that the hart polls. A claimed state reads as `StartPending`, too.

use poorwill_memory::EntryPoint;
use thiserror::Error;

use super::sync::{AtomicU8, AtomicU64, Ordering};

/// States with their numbers (SBI 3.0, table 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HsmState {
    /// Runs the OS.
    Started = 0,
    /// Runs no OS; waits for a start.
    Stopped = 1,
    /// Was requested to start.
    StartPending = 2,
    /// Is stopping.
    StopPending = 3,
    /// Waits for an interrupt within a call.
    Suspended = 4,
    /// Is suspending.
    SuspendPending = 5,
    /// Is resuming.
    ResumePending = 6,
}

impl HsmState {
    /// All states.
    pub const ALL: [HsmState; 7] = [
        HsmState::Started,
        HsmState::Stopped,
        HsmState::StartPending,
        HsmState::StopPending,
        HsmState::Suspended,
        HsmState::SuspendPending,
        HsmState::ResumePending,
    ];

    /// The state with this number, if the specification has one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<HsmState> {
        (Self::ALL.into_iter()).find(|state| *state as u8 == number)
    }

    /// Returns whether the hart has an OS that can be interrupted.
    #[must_use]
    pub fn has_os(self) -> bool {
        match self {
            HsmState::Started
            | HsmState::Suspended
            | HsmState::SuspendPending
            | HsmState::ResumePending => true,
            HsmState::Stopped | HsmState::StartPending | HsmState::StopPending => false,
        }
    }

    /// Returns whether the hart runs an OS, or will, so that it may start another hart.
    #[must_use]
    pub fn may_call(self) -> bool {
        self.has_os() || self == HsmState::StartPending
    }
}

/// A transition was refused: the hart is in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the hart is {0:?}")]
pub struct WrongState(pub HsmState);

/// Why a hart was not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotStarted {
    /// It is not stopped.
    #[error(transparent)]
    State(#[from] WrongState),
    /// No hart may start now.
    #[error("its domain is going to sleep")]
    Forbidden,
}

/// A hart's task at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Enter the OS.
    Start(EntryPoint),
    /// Restore the OS's context of this hart, then enter the OS.
    Wake(EntryPoint),
    /// Restore the hart's state from a cut, and continue where it was stopped.
    Go,
}

impl Task {
    /// The task with this number; `None` for any other number.
    fn from_number(number: u8, entry: EntryPoint) -> Option<Task> {
        let all = [Task::Start(entry), Task::Wake(entry), Task::Go];
        all.into_iter().find(|task| task.number() == number)
    }

    /// Entry point of the OS; unused for [`Go`](Task::Go).
    fn entry(self) -> EntryPoint {
        match self {
            Task::Start(entry) | Task::Wake(entry) => entry,
            Task::Go => EntryPoint::default(),
        }
    }

    fn number(self) -> u8 {
        match self {
            Task::Start(_) => 0,
            Task::Wake(_) => 1,
            Task::Go => 2,
        }
    }
}

/// `StartPending` while the starter still writes the task; other harts see `StartPending`.
const CLAIMED: u8 = 0x80 | HsmState::StartPending as u8;

/// State of a hart, and its task at the next start.
#[derive(Debug)]
pub struct HsmCell {
    state: AtomicU8,
    address: AtomicU64,
    argument: AtomicU64,
    task: AtomicU8,
}

impl Default for HsmCell {
    fn default() -> Self {
        Self::new()
    }
}

impl HsmCell {
    /// The cell of a stopped hart: all harts are stopped at power-on.
    #[must_use]
    pub fn new() -> Self {
        HsmCell {
            state: AtomicU8::new(HsmState::Stopped as u8),
            address: AtomicU64::new(0),
            argument: AtomicU64::new(0),
            task: AtomicU8::new(0),
        }
    }

    /// The view of other harts.
    #[must_use]
    pub fn remote(&self) -> RemoteHsm<'_> {
        RemoteHsm(self)
    }

    /// The hart's own view; no other hart may use it.
    #[must_use]
    pub fn local(&self) -> LocalHsm<'_> {
        LocalHsm(self)
    }

    /// # Panics
    ///
    /// If the cell's memory holds no valid state: it was overwritten.
    fn state(&self) -> HsmState {
        known(self.state.load(Ordering::Acquire))
    }

    fn entry(&self) -> EntryPoint {
        EntryPoint {
            address: self.address.load(Ordering::Relaxed),
            argument: self.argument.load(Ordering::Relaxed),
        }
    }

    fn advance(&self, from: HsmState, to: u8) -> Result<(), WrongState> {
        self.state
            .compare_exchange(from as u8, to, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(|found| WrongState(known(found)))
    }
}

fn known(number: u8) -> HsmState {
    if number == CLAIMED {
        return HsmState::StartPending;
    }
    match HsmState::from_number(number) {
        Some(state) => state,
        None => panic!("memory with a hart's state was overwritten: {number:#x}"),
    }
}

/// The view of other harts.
#[derive(Clone, Copy, Debug)]
pub struct RemoteHsm<'a>(&'a HsmCell);

impl RemoteHsm<'_> {
    /// Current state.
    #[must_use]
    pub fn state(self) -> HsmState {
        self.0.state()
    }

    /// Entry point of the OS on a hart that was requested to start and has not yet started. Stays
    /// valid while no hart runs.
    #[must_use]
    pub fn pending_start(self) -> Option<EntryPoint> {
        let is_pending = self.0.state.load(Ordering::Acquire) == HsmState::StartPending as u8;
        is_pending.then(|| self.0.entry())
    }

    /// Stopped -> StartPending, with the hart's task. The caller then interrupts the hart, which
    /// checks its state.
    ///
    /// # Errors
    ///
    /// [`WrongState`]; nothing has changed.
    pub fn start(self, task: Task) -> Result<(), WrongState> {
        self.claim()?;
        self.give(task);
        Ok(())
    }

    /// As [`start`](Self::start), if `may_start` returns true. It is called after the hart's state
    /// is claimed: a hart that forbids starts, and then finds this one stopped, knows that it stays
    /// stopped.
    ///
    /// # Errors
    ///
    /// [`NotStarted`]; nothing has changed.
    pub fn start_if(self, task: Task, may_start: impl FnOnce() -> bool) -> Result<(), NotStarted> {
        self.claim()?;
        if may_start() {
            self.give(task);
            return Ok(());
        }
        let stopped = HsmState::Stopped as u8;
        self.0.state.store(stopped, Ordering::Release);
        Err(NotStarted::Forbidden)
    }

    fn claim(self) -> Result<(), WrongState> {
        self.0.advance(HsmState::Stopped, CLAIMED)
    }

    /// Gives a hart its task, whose state the caller has claimed.
    fn give(self, task: Task) {
        let cell = self.0;
        let entry = task.entry();
        cell.address.store(entry.address, Ordering::Relaxed);
        cell.argument.store(entry.argument, Ordering::Relaxed);
        cell.task.store(task.number(), Ordering::Relaxed);
        let pending = HsmState::StartPending as u8;
        cell.state.store(pending, Ordering::Release);
    }
}

/// The hart's own view.
#[derive(Clone, Copy, Debug)]
pub struct LocalHsm<'a>(&'a HsmCell);

impl<'a> LocalHsm<'a> {
    /// Current state.
    #[must_use]
    pub fn state(self) -> HsmState {
        self.0.state()
    }

    /// Started -> StopPending.
    ///
    /// # Errors
    ///
    /// [`WrongState`]; nothing has changed. The same holds for the other transitions.
    pub fn stop(self) -> Result<(), WrongState> {
        self.0
            .advance(HsmState::Started, HsmState::StopPending as u8)
    }

    /// StopPending -> Stopped: other harts may now start it.
    ///
    /// # Errors
    ///
    /// [`WrongState`].
    pub fn stopped(self) -> Result<(), WrongState> {
        self.0
            .advance(HsmState::StopPending, HsmState::Stopped as u8)
    }

    /// Started -> SuspendPending -> Suspended.
    ///
    /// # Errors
    ///
    /// [`WrongState`].
    pub fn suspend(self) -> Result<(), WrongState> {
        (self.0).advance(HsmState::Started, HsmState::SuspendPending as u8)?;
        (self.0).advance(HsmState::SuspendPending, HsmState::Suspended as u8)
    }

    /// Suspended -> ResumePending -> Started.
    ///
    /// # Errors
    ///
    /// [`WrongState`].
    pub fn resume(self) -> Result<(), WrongState> {
        (self.0).advance(HsmState::Suspended, HsmState::ResumePending as u8)?;
        (self.0).advance(HsmState::ResumePending, HsmState::Started as u8)
    }

    /// As [`starting`](Self::starting), on a hart whose OS may be lent to a weak hart: a start is that
    /// one's then. `is_lent` is called after the look at the state, since the weak hart requests
    /// starts only while the OS is lent.
    #[must_use]
    pub fn starting_unless(self, is_lent: impl FnOnce() -> bool) -> Option<Starting<'a>> {
        self.starting().filter(|_| !is_lent())
    }

    /// The hart's task, if it was requested to start.
    ///
    /// # Panics
    ///
    /// If the cell's memory holds no valid task: it was overwritten.
    #[must_use]
    pub fn starting(self) -> Option<Starting<'a>> {
        let cell = self.0;
        if cell.state.load(Ordering::Acquire) != HsmState::StartPending as u8 {
            return None;
        }
        let task = Task::from_number(cell.task.load(Ordering::Relaxed), cell.entry());
        let task = task.expect("the starter has written its task");
        Some(Starting { cell, task })
    }
}

/// A hart that was requested to start, and its task.
#[derive(Debug)]
pub struct Starting<'a> {
    cell: &'a HsmCell,
    task: Task,
}

impl Starting<'_> {
    /// The task.
    #[must_use]
    pub fn task(&self) -> Task {
        self.task
    }

    /// StartPending -> Started. No other method leaves StartPending, and this value exists only in
    /// that state.
    ///
    /// # Errors
    ///
    /// [`WrongState`]: another such value has started the hart.
    pub fn started(self) -> Result<(), WrongState> {
        self.cell
            .advance(HsmState::StartPending, HsmState::Started as u8)
    }
}
