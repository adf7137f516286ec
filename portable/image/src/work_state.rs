//! The state of a work item: which hart may access it.

use core::sync::atomic::{AtomicU8, Ordering};

/// The state of a work item: with the coordinator, which fills and empties it; given; taken by a
/// hart; or done. Each step is a release, and each check an acquire. So all writes before a step
/// are visible after it.
#[derive(Debug)]
pub(crate) struct WorkState(AtomicU8);

const COORDINATORS: u8 = 0;
const GIVEN: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

impl WorkState {
    pub(crate) const fn new() -> Self {
        WorkState(AtomicU8::new(COORDINATORS))
    }

    pub(crate) fn give(&self) {
        self.0.store(GIVEN, Ordering::Release);
    }

    /// Takes the work; false if it was not handed out, or another hart has it.
    pub(crate) fn take(&self) -> bool {
        self.0
            .compare_exchange(GIVEN, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    pub(crate) fn finish(&self) {
        self.0.store(DONE, Ordering::Release);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    pub(crate) fn is_coordinators(&self) -> bool {
        self.0.load(Ordering::Relaxed) == COORDINATORS
    }

    pub(crate) fn take_back(&self) {
        self.0.store(COORDINATORS, Ordering::Release);
    }
}
