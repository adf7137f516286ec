//! The state of a hart (SBI 3.0, chapter 9), who may change it and how.
//!
//! A cell has two views. [`RemoteHsm`] is what any hart may do to another: ask for
//! its state, and start it. [`LocalHsm`] is what a hart does to itself: all other
//! transitions. There is no way to write a state, so that only the edges of the
//! specification's figure exist:
//!
//! ```text
//! Stopped -(remote)-> StartPending -> Started -> StopPending -> Stopped
//! Started -> SuspendPending -> Suspended -> ResumePending -> Started
//! ```
//!
//! Stopping another hart is no edge:
//!
//! ```compile_fail
//! fn stop(other: &poorwill_hart::HsmCell) {
//!     other.remote().stop();
//! }
//! ```
//!
//! and a hart does not start itself without what it is to do:
//!
//! ```compile_fail
//! fn started(own: &poorwill_hart::HsmCell) {
//!     own.local().started();
//! }
//! ```
//!
//! # Ordering
//!
//! What a hart is to do at a start lies beside its state. Whoever starts it claims
//! the state first, which Acquire orders behind the last start's reading; writes the
//! task; and releases it with the state that the hart looks for. The claim reads as
//! `StartPending` too.

use thiserror::Error;

use super::sync::{AtomicU8, AtomicU64, Ordering};

/// The states (SBI 3.0, table 9.1), with their numbers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HsmState {
    /// Runs the OS.
    Started = 0,
    /// Runs no OS, and waits to be started.
    Stopped = 1,
    /// Has been told to start.
    StartPending = 2,
    /// Is on its way to a stop.
    StopPending = 3,
    /// Waits within a call for an interrupt.
    Suspended = 4,
    /// Is on its way there.
    SuspendPending = 5,
    /// Is on its way back.
    ResumePending = 6,
}

impl HsmState {
    /// All of them.
    pub const ALL: [HsmState; 7] = [
        HsmState::Started,
        HsmState::Stopped,
        HsmState::StartPending,
        HsmState::StopPending,
        HsmState::Suspended,
        HsmState::SuspendPending,
        HsmState::ResumePending,
    ];

    /// The state with that number; `None` where the specification has none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<HsmState> {
        (Self::ALL.into_iter()).find(|state| *state as u8 == number)
    }

    /// Whether the hart has an OS that can be interrupted.
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
}

/// A transition that was not to be: the hart is in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the hart is {0:?}")]
pub struct WrongState(pub HsmState);

/// Where and how the OS goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Physical address of its first instruction.
    pub address: u64,
    /// What it finds in a1.
    pub argument: u64,
}

/// What a hart does when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Enter the OS there.
    Start(Resume),
    /// Put the OS's context of this hart back, then go on there.
    Wake(Resume),
    /// Put back all that a cut has kept of this hart, and go on where it was.
    Go,
}

impl Task {
    /// Where the OS goes on; [`Go`](Task::Go) has that elsewhere.
    fn resume(self) -> Resume {
        match self {
            Task::Start(resume) | Task::Wake(resume) => resume,
            Task::Go => Resume {
                address: 0,
                argument: 0,
            },
        }
    }

    /// Its number in a cell.
    fn number(self) -> u8 {
        match self {
            Task::Start(_) => 0,
            Task::Wake(_) => 1,
            Task::Go => 2,
        }
    }
}

/// `StartPending`, while whoever starts the hart still writes the task. Seen from
/// outside it is the same state.
const CLAIMED: u8 = 0x80 | HsmState::StartPending as u8;

/// The state of one hart, and what it is to do at its next start.
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
    /// That of a stopped hart, as every hart is at power-on.
    #[must_use]
    pub fn new() -> Self {
        HsmCell {
            state: AtomicU8::new(HsmState::Stopped as u8),
            address: AtomicU64::new(0),
            argument: AtomicU64::new(0),
            task: AtomicU8::new(0),
        }
    }

    /// What other harts may do.
    #[must_use]
    pub fn remote(&self) -> RemoteHsm<'_> {
        RemoteHsm(self)
    }

    /// What the hart itself may do; to be given to nobody else.
    #[must_use]
    pub fn local(&self) -> LocalHsm<'_> {
        LocalHsm(self)
    }

    /// # Panics
    ///
    /// Where the memory of the cell holds no state: it was overwritten.
    fn state(&self) -> HsmState {
        known(self.state.load(Ordering::Acquire))
    }

    fn resume(&self) -> Resume {
        Resume {
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
        None => panic!("a hart's state is overwritten: {number:#x}"),
    }
}

/// What any hart may do to another.
#[derive(Clone, Copy, Debug)]
pub struct RemoteHsm<'a>(&'a HsmCell);

impl RemoteHsm<'_> {
    /// The hart's state now.
    #[must_use]
    pub fn state(self) -> HsmState {
        self.0.state()
    }

    /// Where the OS is to start, on a hart that has been told to and has not yet. True for
    /// as long as no hart runs.
    #[must_use]
    pub fn pending_start(self) -> Option<Resume> {
        let is_pending = self.0.state.load(Ordering::Acquire) == HsmState::StartPending as u8;
        is_pending.then(|| self.0.resume())
    }

    /// Stopped -> StartPending, with what the hart is to do. It is then to be told to
    /// look.
    ///
    /// # Errors
    ///
    /// [`WrongState`]; nothing has changed then.
    pub fn start(self, task: Task) -> Result<(), WrongState> {
        let cell = self.0;
        cell.advance(HsmState::Stopped, CLAIMED)?;
        let resume = task.resume();
        cell.address.store(resume.address, Ordering::Relaxed);
        cell.argument.store(resume.argument, Ordering::Relaxed);
        cell.task.store(task.number(), Ordering::Relaxed);
        let pending = HsmState::StartPending as u8;
        cell.state.store(pending, Ordering::Release);
        Ok(())
    }
}

/// What a hart may do to itself.
#[derive(Clone, Copy, Debug)]
pub struct LocalHsm<'a>(&'a HsmCell);

impl<'a> LocalHsm<'a> {
    /// Its state now.
    #[must_use]
    pub fn state(self) -> HsmState {
        self.0.state()
    }

    /// Started -> StopPending.
    ///
    /// # Errors
    ///
    /// [`WrongState`]; nothing has changed then. So with the others.
    pub fn stop(self) -> Result<(), WrongState> {
        self.0
            .advance(HsmState::Started, HsmState::StopPending as u8)
    }

    /// StopPending -> Stopped: from here on others may start it.
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

    /// What to do, where the hart has been told to start.
    #[must_use]
    pub fn starting(self) -> Option<Starting<'a>> {
        let cell = self.0;
        if cell.state.load(Ordering::Acquire) != HsmState::StartPending as u8 {
            return None;
        }
        let resume = cell.resume();
        let task = match cell.task.load(Ordering::Relaxed) {
            0 => Task::Start(resume),
            1 => Task::Wake(resume),
            _ => Task::Go,
        };
        Some(Starting { cell, task })
    }
}

/// A hart that has been told to start, and what to do.
#[derive(Debug)]
pub struct Starting<'a> {
    cell: &'a HsmCell,
    task: Task,
}

impl Starting<'_> {
    /// What to do.
    #[must_use]
    pub fn task(&self) -> Task {
        self.task
    }

    /// StartPending -> Started. Nobody else leaves that state, and this value is made
    /// in it.
    ///
    /// # Errors
    ///
    /// [`WrongState`]: another such value has made the hart start.
    pub fn started(self) -> Result<(), WrongState> {
        self.cell
            .advance(HsmState::StartPending, HsmState::Started as u8)
    }
}
