//! The owner of a stack that several harts use in turn.
//!
//! A lock around a piece of code would not do: a hart may already be on the stack when its Rust
//! code begins. The hart leaves the stack by restarting on another one, and calls
//! [`leave`](StackLock::leave) there.
//!
//! # Ordering
//!
//! Leaving releases and taking acquires: a hart's accesses to the stack come before those of the
//! next owner.

use super::sync::{AtomicU64, Ordering};

/// No owner.
const FREE: u64 = u64::MAX;

/// Owner of a stack.
#[derive(Debug)]
pub struct StackLock(AtomicU64);

impl Default for StackLock {
    fn default() -> Self {
        Self::new()
    }
}

impl StackLock {
    /// A stack without an owner.
    #[must_use]
    pub fn new() -> Self {
        StackLock(AtomicU64::new(FREE))
    }

    /// Makes the hart with this ID the owner, unless the stack has one. Returns whether it did.
    #[must_use]
    pub fn try_take(&self, hart: u64) -> bool {
        let taken = self
            .0
            .compare_exchange(FREE, hart, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok()
    }

    /// Returns whether the calling hart, with this ID, is on the stack.
    #[must_use]
    pub fn is_on(&self, hart: u64) -> bool {
        self.0.load(Ordering::Relaxed) == hart
    }

    /// Frees the stack if the calling hart, with this ID, is on it.
    pub fn leave(&self, hart: u64) {
        if self.is_on(hart) {
            self.0.store(FREE, Ordering::Release);
        }
    }
}
