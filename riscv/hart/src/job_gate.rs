//! The gate that worker harts pass for a coordinator's job. It tells the coordinator when the last
//! worker has left.
//!
//! # Ordering
//!
//! All state is in one word, which orders entering and closing: a hart that enters sees the gate
//! open in the same step that counts it. Workers that enter (Acquire) see the coordinator's writes
//! from before it opened (Release). A coordinator that finds the gate empty (Acquire) sees the
//! workers' writes from before they left (Release). All steps are read-modify-writes, so a worker
//! that leaves later passes on the writes of earlier ones. Closing needs no ordering: it only keeps
//! the count from growing.

use super::sync::{AtomicU64, Ordering};
use thiserror::Error;

const INSIDE: u64 = 0xffff;
const OPEN: u64 = 1 << 16;
/// Lowest bit of the round's number, which wraps after 2^47 rounds.
const ROUND: u64 = 1 << 17;

/// A round cannot begin because another is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the worker harts have a job already")]
pub struct GateBusy;

/// The gate, closed at first. One coordinator opens it, once for each round.
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

    /// Begins a round. Workers inside see all earlier writes.
    ///
    /// # Errors
    ///
    /// [`GateBusy`]: rounds are not nested, and only one coordinator opens them.
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

    /// Admits no more workers.
    pub fn close(&self) {
        self.0.fetch_and(!OPEN, Ordering::Relaxed);
    }

    /// Number of workers inside. At 0 with the gate closed, no worker can enter, and all their
    /// writes are visible.
    #[must_use]
    pub fn inside(&self) -> usize {
        (self.0.load(Ordering::Acquire) & INSIDE) as usize
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A hart that takes part in each round once.
#[derive(Debug, Default)]
pub struct Worker {
    /// The last round of this worker; no round has the number zero before they wrap.
    last_round: u64,
}

impl Worker {
    /// A worker that has not taken part yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Enters the open round. `None` if no round is open, or this worker has already taken part.
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

/// A worker inside the gate. It leaves on drop.
#[derive(Debug)]
pub struct Inside<'g> {
    gate: &'g JobGate,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.gate.leave();
    }
}
