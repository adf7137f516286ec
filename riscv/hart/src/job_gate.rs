//! The gate that worker harts pass to do a coordinator's job, and that tells the
//! coordinator when the last of them has left.
//!
//! # Ordering
//!
//! Everything is in one word, so that entering and closing are ordered by it: a hart
//! that enters finds the gate open in the very step in which it is counted. What the
//! coordinator writes before it opens (Release) is seen by whoever enters (Acquire);
//! what a worker does is seen by the coordinator that finds nobody inside (leaving
//! releases, looking acquires). All steps are read-modify-writes, so a worker that
//! leaves later passes on what one before it has released. Closing needs no
//! ordering of its own: it only keeps the count from growing.

use super::sync::{AtomicU64, Ordering};
use thiserror::Error;

/// The number of workers inside.
const INSIDE: u64 = 0xffff;
/// The gate is open.
const OPEN: u64 = 1 << 16;
/// The lowest bit of the number of the round. It wraps after 2^47 rounds.
const ROUND: u64 = 1 << 17;

/// A round cannot begin: one is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the harts are at work already")]
pub struct GateBusy;

/// The gate, closed at first. One coordinator opens it, for one round after another.
#[derive(Debug)]
pub struct JobGate(AtomicU64);

impl Default for JobGate {
    fn default() -> Self {
        Self::new()
    }
}

impl JobGate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        JobGate(AtomicU64::new(0))
    }

    /// Begins a round. What was written before is seen by the workers inside.
    ///
    /// # Errors
    ///
    /// [`GateBusy`]: rounds are not nested, and one coordinator opens them.
    pub fn open(&self) -> Result<(), GateBusy> {
        let next = |word: u64| {
            let idle = word & (OPEN | INSIDE) == 0;
            idle.then_some(word.wrapping_add(ROUND) | OPEN)
        };
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, next)
            .map(|_| ())
            .map_err(|_| GateBusy)
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// How many workers are inside. Where it is none and the gate is closed, none
    /// will be, and what they did is visible.
    #[must_use]
    pub fn inside(&self) -> usize {
        (self.0.load(Ordering::Acquire) & INSIDE) as usize
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A hart that takes part in rounds, in each of them once.
#[derive(Debug, Default)]
pub struct Worker {
    /// The round that it did last; none has the number zero before they wrap.
    last_round: u64,
}

impl Worker {
    /// One that has not taken part yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters the open round, unless there is none or this worker has done it.
    pub fn enter<'g>(&mut self, gate: &'g JobGate) -> Option<Inside<'g>> {
        let last = self.last_round;
        let entered = |word: u64| {
            let wanted = word & OPEN != 0 && word / ROUND != last && word & INSIDE != INSIDE;
            wanted.then_some(word + 1)
        };
        let word = gate
            .0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, entered)
            .ok()?;
        self.last_round = word / ROUND;
        Some(Inside { gate })
    }
}

/// A worker within the gate; dropping it leaves.
#[derive(Debug)]
pub struct Inside<'g> {
    gate: &'g JobGate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}
