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

use thiserror::Error;

/// Maximum wait for the other harts to leave the OS. A virtual machine's hart may pause meanwhile.
const ARRIVE_MS: u64 = 1000;

/// Time between two interrupts of a hart: one that starts may have cleared the first.
const AGAIN_MS: u64 = 1;

/// Maximum wait for the states of harts that have arrived. They take microseconds.
const GIVE_MS: u64 = 60_000;

/// The other harts of the OS, as the calling hart reaches them.
pub trait Others {
    /// Those that run the OS, or will.
    fn running(&self) -> u32;

    /// Interrupts these harts in machine mode.
    fn ring(&self, harts: u32);

    /// Serves a request of another hart, if there is one. Returns the time since the call in
    /// milliseconds.
    fn serve(&self) -> u64;
}

/// Why the harts of an OS are not gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotGathered {
    /// Another hart calls.
    #[error("another hart begins one")]
    Called,
    /// A hart runs a program or a guest.
    #[error("another hart is not in the OS")]
    Outside,
    /// A hart does not leave the OS.
    #[error("the hart at place {0} does not answer")]
    Late(u32),
}

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

    /// Calls the other harts, and waits until all have given their states.
    ///
    /// # Errors
    ///
    /// [`NotGathered`]: each hart continues its OS.
    ///
    /// # Panics
    ///
    /// If a hart that has arrived does not give its state.
    pub fn gather(&self, others: &impl Others) -> Result<(), NotGathered> {
        if !self.call() {
            return Err(NotGathered::Called);
        }
        let mut asked_ms = None;
        loop {
            // The look at the states comes last: a hart that has not arrived may start another.
            let arrived = self.arrived();
            let missing = others.running() & !arrived;
            if missing == 0 {
                break;
            }
            let waited_ms = others.serve();
            if self.next() == Arrived::Continues {
                return Err(NotGathered::Outside);
            }
            if waited_ms >= ARRIVE_MS {
                self.end();
                return Err(NotGathered::Late(missing.trailing_zeros()));
            }
            if asked_ms.is_none_or(|asked| waited_ms >= asked + AGAIN_MS) {
                asked_ms = Some(waited_ms);
                others.ring(missing);
            }
            core::hint::spin_loop();
        }
        self.give();
        while self.arrived() != 0 {
            let is_late = others.serve() >= GIVE_MS;
            assert!(!is_late, "a hart of the OS does not give its state");
            core::hint::spin_loop();
        }
        self.end();
        Ok(())
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
