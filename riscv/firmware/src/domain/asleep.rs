//! The hart that sleeps for its domain, and what another hart asks it to do meanwhile.

use core::fmt;

use poorwill_hart::AskCell;
use poorwill_memory::EntryPoint;
use spin::Mutex;

/// A job for the hart that sleeps.
pub(crate) type Job<'a> = &'a (dyn Fn() + Sync);

/// A hart that sleeps for its domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SleepingHart {
    /// Its ID.
    pub(crate) id: u64,
    /// Where the OS continues.
    pub(crate) vector: EntryPoint,
}

/// The sleep of a domain.
pub(crate) struct Asleep {
    /// The hart; the last one while the domain runs.
    pub(crate) hart: Mutex<Option<SleepingHart>>,
    pub(crate) ask: AskCell,
    pub(crate) job: Mutex<Option<Job<'static>>>,
}

impl Asleep {
    pub(super) fn new() -> Self {
        Asleep {
            hart: Mutex::new(None),
            ask: AskCell::new(),
            job: Mutex::new(None),
        }
    }
}

impl fmt::Debug for Asleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hart.lock().fmt(f)
    }
}
