//! Who is on a stack that several harts use, one after another.
//!
//! It is no lock around a piece of code: a hart may be on the stack when its program
//! begins, and leave it by starting anew on another, where it says so.
//!
//! # Ordering
//!
//! Leaving releases and taking acquires: what a hart did on the stack comes before all
//! that the next one does there.

use super::sync::{AtomicU64, Ordering};

/// Nobody.
const FREE: u64 = u64::MAX;

/// The stack's owner.
#[derive(Debug)]
pub struct StackLock(AtomicU64);

impl Default for StackLock {
    fn default() -> Self {
        Self::new()
    }
}

impl StackLock {
    /// Of a stack that nobody is on.
    #[must_use]
    pub fn new() -> Self {
        StackLock(AtomicU64::new(FREE))
    }

    /// Makes the stack that of the hart with this ID, unless somebody is on it. Says
    /// whether it is.
    #[must_use]
    pub fn try_take(&self, hart: u64) -> bool {
        let taken = self
            .0
            .compare_exchange(FREE, hart, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    /// Whether the hart with this ID, which calls, is on the stack.
    #[must_use]
    pub fn is_on(&self, hart: u64) -> bool {
        self.0.load(Ordering::Relaxed) == hart
    }

    /// The hart with this ID, which calls, is not on the stack any more, if it was.
    pub fn leave(&self, hart: u64) {
        if self.is_on(hart) {
            self.0.store(FREE, Ordering::Release);
        }
    }
}
