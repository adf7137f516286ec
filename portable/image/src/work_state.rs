//! Whose a piece of work is.

use core::sync::atomic::{AtomicU8, Ordering};

/// Where a piece of work is: the coordinator's, who fills and empties it; given to the harts;
/// taken by one of them; or done. What was written before a step is seen by whoever
/// finds that it was made.
#[derive(Debug)]
pub(crate) struct WorkState(AtomicU8);

const COORDINATORS: u8 = 0;
const GIVEN: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

impl WorkState {
    /// The coordinator's.
    pub(crate) const fn new() -> Self {
        WorkState(AtomicU8::new(COORDINATORS))
    }

    /// Gives the work to the harts.
    pub(crate) fn give(&self) {
        self.0.store(GIVEN, Ordering::Release);
    }

    /// Takes the work, if it was given and nobody else has it; whether this hart has.
    pub(crate) fn take(&self) -> bool {
        self.0
            .compare_exchange(GIVEN, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The work is done.
    pub(crate) fn finish(&self) {
        self.0.store(DONE, Ordering::Release);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    pub(crate) fn is_coordinators(&self) -> bool {
        self.0.load(Ordering::Relaxed) == COORDINATORS
    }

    /// The coordinator has it back.
    pub(crate) fn take_back(&self) {
        self.0.store(COORDINATORS, Ordering::Release);
    }
}
