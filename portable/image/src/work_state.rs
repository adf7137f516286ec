//! The state of a work item: which hart may access it.

use core::sync::atomic::{AtomicU8, Ordering};

/// The state of a work item: owned by the coordinator, which fills and empties it; handed
/// out; taken by a hart; or done. Each step releases, and whoever sees it acquires, so all
/// that was written before the step is visible after it.
#[derive(Debug)]
pub(crate) struct WorkState(AtomicU8);

const COORDINATORS: u8 = 0;
const GIVEN: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

impl WorkState {
    /// Owned by the coordinator.
    pub(crate) const fn new() -> Self {
        WorkState(AtomicU8::new(COORDINATORS))
    }

    /// Hands the work out.
    pub(crate) fn give(&self) {
        self.0.store(GIVEN, Ordering::Release);
    }

    /// Takes the work; false if it was not handed out, or another hart has it.
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

    /// Returns it to the coordinator.
    pub(crate) fn take_back(&self) {
        self.0.store(COORDINATORS, Ordering::Release);
    }
}
