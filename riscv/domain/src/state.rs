//! The state of a domain, and its permitted transitions:
//!
//! ```text
//! Waking -> Running                                the machine starts
//! Running -> Parked -> Running                     the domain sleeps and wakes alone
//!            Parked -> Asleep -> Waking -> Running   with the machine
//!                      Asleep -> Parked            the machine's sleep is refused
//! Running -> Ended
//! ```
//!
//! A parked domain's own wake and the master's sleep of the machine may come at the same time. Both
//! leave `Parked`, and one of them succeeds.
//!
//! # Ordering
//!
//! The state is one word. A transition releases the writes of the hart that makes it, and acquires
//! those of the one before: a hart that finds a domain parked sees all of its OS's memory.

use thiserror::Error;

use super::sync::{AtomicU8, Ordering};

/// The state of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DomainState {
    /// Its OS runs.
    Running = 0,
    /// It sleeps alone, and its own wake events wake it. A hart waits for them in machine mode.
    Parked = 1,
    /// It sleeps with the machine, and only the machine's wake ends that.
    Asleep = 2,
    /// The machine starts or wakes, and the domain's OS does not run yet.
    Waking = 3,
    /// Its OS cannot continue. Its harts stay in machine mode.
    Ended = 4,
}

impl DomainState {
    const ALL: [DomainState; 5] = [
        DomainState::Running,
        DomainState::Parked,
        DomainState::Asleep,
        DomainState::Waking,
        DomainState::Ended,
    ];
}

/// A transition was refused: the domain is in another state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the domain is {0:?}")]
pub struct WrongDomainState(pub DomainState);

/// State of a domain. No method writes an arbitrary state.
#[derive(Debug)]
pub struct DomainCell(AtomicU8);

impl Default for DomainCell {
    fn default() -> Self {
        Self::new()
    }
}

/// A method for each transition.
macro_rules! transitions {
    ($($(#[$doc:meta])* $name:ident: $from:ident -> $to:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// [`WrongDomainState`]; nothing has changed.
            pub fn $name(&self) -> Result<(), WrongDomainState> {
                self.advance(DomainState::$from, DomainState::$to)
            }
        )*
    };
}

impl DomainCell {
    /// The cell of a domain on a machine that starts.
    #[must_use]
    pub fn new() -> Self {
        DomainCell(AtomicU8::new(DomainState::Waking as u8))
    }

    /// Current state.
    ///
    /// # Panics
    ///
    /// If the cell's memory holds no valid state: it was overwritten.
    #[must_use]
    pub fn state(&self) -> DomainState {
        known(self.0.load(Ordering::Acquire))
    }

    transitions! {
        /// Running -> Parked, by the domain's only hart that is not stopped.
        park: Running -> Parked;
        /// Parked -> Running, by the domain's hart for a wake event of its own.
        unpark: Parked -> Running;
        /// Parked -> Asleep, by the master.
        sleep: Parked -> Asleep;
        /// Asleep -> Parked, by the master, as the machine does not sleep.
        stay_parked: Asleep -> Parked;
        /// Asleep -> Waking, by the hart that wakes the machine or the domain before.
        wake: Asleep -> Waking;
        /// Waking -> Running, by the hart that starts the domain, or by its own after a sleep.
        run: Waking -> Running;
        /// Running -> Ended, by a hart of the domain.
        end: Running -> Ended;
    }

    fn advance(&self, from: DomainState, to: DomainState) -> Result<(), WrongDomainState> {
        self.0
            .compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(|found| WrongDomainState(known(found)))
    }
}

fn known(number: u8) -> DomainState {
    let mut all = DomainState::ALL.into_iter();
    match all.find(|state| *state as u8 == number) {
        Some(state) => state,
        None => panic!("memory with a domain's state was overwritten: {number:#x}"),
    }
}

/// Puts parked domains to sleep with the machine. An ended domain stays ended.
///
/// # Errors
///
/// The index of the first domain that is neither parked nor ended. The domains before it are parked
/// as before: the caller rings their harts, which may have missed a wake event meanwhile.
pub fn sleep_all<'c>(
    others: impl Iterator<Item = &'c DomainCell> + Clone,
) -> Result<(), (usize, WrongDomainState)> {
    for (index, cell) in others.clone().enumerate() {
        match cell.sleep() {
            Ok(()) | Err(WrongDomainState(DomainState::Ended)) => {}
            Err(error) => {
                for cell in others.take(index) {
                    // An ended domain does not sleep.
                    _ = cell.stay_parked();
                }
                return Err((index, error));
            }
        }
    }
    Ok(())
}
