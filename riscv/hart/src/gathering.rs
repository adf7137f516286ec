//! Harts of an OS that leave it at one instant, so that another hart may use all their states:
//!
//! ```text
//! Idle -> Arriving -> Giving -> Idle
//!         Arriving -> Idle             called off
//! ```
//!
//! One hart calls the others. Each arrives in machine mode, and waits. After the last one has arrived,
//! none can interrupt another, and each gives its state. A hart that gave its state earlier could miss
//! an interrupt of a hart that arrives later.
//!
//! Harts are bits, by their places. Each step releases what the hart has written, and acquires what the
//! others have.

use super::sync::{AtomicU8, AtomicU32, Ordering};

const IDLE: u8 = 0;
const ARRIVING: u8 = 1;
const GIVING: u8 = 2;

/// The state of a gathering.
#[derive(Debug)]
pub struct Gathering {
    step: AtomicU8,
    arrived: AtomicU32,
}

/// What an arrived hart does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// It waits for other harts.
    Waits,
    /// It gives its state, and then [leaves](Gathering::leave).
    Gives,
    /// It continues its OS: the gathering was called off.
    Continues,
}

impl Default for Gathering {
    fn default() -> Self {
        Self::new()
    }
}

impl Gathering {
    /// No gathering.
    #[must_use]
    pub fn new() -> Self {
        Gathering {
            step: AtomicU8::new(IDLE),
            arrived: AtomicU32::new(0),
        }
    }

    /// Calls the other harts. Returns false if another hart does.
    #[must_use]
    pub fn call(&self) -> bool {
        self.advance(IDLE, ARRIVING)
    }

    /// Returns whether harts are called.
    #[must_use]
    pub fn is_called(&self) -> bool {
        self.step.load(Ordering::Acquire) == ARRIVING
    }

    /// The called hart at `place` has left its OS. It then looks at [`next`](Self::next).
    pub fn arrive(&self, place: usize) {
        self.arrived.fetch_or(1 << place, Ordering::AcqRel);
    }

    /// What the arrived hart does next.
    #[must_use]
    pub fn next(&self) -> Arrived {
        match self.step.load(Ordering::Acquire) {
            ARRIVING => Arrived::Waits,
            GIVING => Arrived::Gives,
            _ => Arrived::Continues,
        }
    }

    /// The arrived hart has given its state, or continues its OS.
    pub fn leave(&self, place: usize) {
        self.arrived.fetch_and(!(1 << place), Ordering::AcqRel);
    }

    /// The harts that have arrived and not left.
    #[must_use]
    pub fn arrived(&self) -> u32 {
        self.arrived.load(Ordering::Acquire)
    }

    /// Asks the arrived harts for their states, on the calling hart. All of the OS have arrived.
    pub fn give(&self) {
        self.step.store(GIVING, Ordering::Release);
    }

    /// Ends the gathering after all states were given, or calls it off.
    pub fn end(&self) {
        self.step.store(IDLE, Ordering::Release);
    }

    fn advance(&self, from: u8, to: u8) -> bool {
        let exchanged = self
            .step
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        exchanged.is_ok()
    }
}
