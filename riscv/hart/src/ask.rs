//! A job that one hart asks another one to do, while that one rests in machine mode:
//!
//! ```text
//! Idle -> Asked -> Taken -> Done -> Idle
//!         Asked -> Idle             withdrawn, as the hart is late
//! ```
//!
//! The asking hart lends the job: it leaves only after it has withdrawn it, or after it was done.
//! Each step releases what the hart has written, and acquires what the other one has.

use super::sync::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const ASKED: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

/// The state of such a job.
#[derive(Debug)]
pub struct AskCell(AtomicU8);

impl Default for AskCell {
    fn default() -> Self {
        Self::new()
    }
}

impl AskCell {
    /// No job.
    #[must_use]
    pub fn new() -> Self {
        AskCell(AtomicU8::new(IDLE))
    }

    /// Asks, and returns whether no other hart does.
    pub fn ask(&self) -> bool {
        self.advance(IDLE, ASKED)
    }

    /// Returns whether the job was asked for and not yet taken.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Acquire) == ASKED
    }

    /// Takes the job, on the hart that was asked. Returns whether there is one.
    #[must_use]
    pub fn take(&self) -> bool {
        self.advance(ASKED, TAKEN)
    }

    /// Ends the job that was taken.
    pub fn done(&self) {
        self.0.store(DONE, Ordering::Release);
    }

    /// As [`done`](Self::done), for a job whose end the asking hart learns in another way.
    pub fn end(&self) {
        self.0.store(IDLE, Ordering::Release);
    }

    /// Withdraws the job. Returns false if it was taken.
    pub fn withdraw(&self) -> bool {
        self.advance(ASKED, IDLE)
    }

    /// Returns whether the job is done; the next one may be asked for then.
    pub fn is_done(&self) -> bool {
        self.advance(DONE, IDLE)
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        let exchanged = self
            .0
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }
}
