//! The tasks that Go gives to the harts, in the record of a cut.

use poorwill_hart::Task;
use poorwill_memory::EntryPoint;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The hart was stopped, and stays so.
const STOPPED: u64 = 0;
const GOES_ON: u64 = 1;
const STARTS: u64 = 2;
/// The hart asked for a sleep, and wakes at the wake vector.
const WAKES: u64 = 3;

/// A hart's next task.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HartStart {
    id: u64,
    does: u64,
    /// Zeros for a hart that continues, or stays stopped.
    entry: EntryPoint,
}

impl HartStart {
    /// The task of a hart. `is_running`: it runs the OS. `vector`: the OS has asked for the cut, and
    /// continues there. `pending`: the OS has asked for the hart's start.
    #[must_use]
    pub fn new(
        id: u64,
        is_running: bool,
        vector: Option<EntryPoint>,
        pending: Option<EntryPoint>,
    ) -> Self {
        let (does, entry) = match (is_running, vector, pending) {
            (true, Some(vector), _) => (WAKES, Some(vector)),
            (true, None, _) => (GOES_ON, None),
            (false, _, Some(pending)) => (STARTS, Some(pending)),
            (false, _, None) => (STOPPED, None),
        };
        HartStart {
            id,
            does,
            entry: entry.unwrap_or_default(),
        }
    }

    /// The hart's ID.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the hart was running the OS.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.does == GOES_ON
    }

    /// Returns whether the hart asked for a sleep.
    #[must_use]
    pub fn wakes(&self) -> bool {
        self.does == WAKES
    }

    /// The hart's task; `None` for a stopped hart.
    #[must_use]
    pub fn task(&self) -> Option<Task> {
        match self.does {
            GOES_ON => Some(Task::Go),
            STARTS => Some(Task::Start(self.entry)),
            WAKES => Some(Task::Wake(self.entry)),
            _ => None,
        }
    }
}
