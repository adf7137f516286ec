//! The state of a domain, and its permitted transitions:
//!
//! ```text
//! Waking -> Running                                  the machine starts
//! Running -> Parking -> Parked -> Running            the domain sleeps and wakes alone
//!            Parking -> Running                      a hart of the domain still runs
//!                       Parked -> Asleep -> Waking -> Running   with the machine
//!                                 Asleep -> Parked   the machine's sleep is refused
//! Running -> Ended, Parking -> Ended, Waking -> Ended
//! ```
//!
//! A domain that parks starts no hart: it is stopped when its harts were found stopped once, in any
//! order. Otherwise two harts could start each other while a third one looks.
//!
//! A parked domain's own wake and the master's sleep of the machine may come at the same time. Both
//! leave `Parked`, and one of them succeeds.
//!
//! # Ordering
//!
//! The state is one word. A transition releases the writes of the hart that makes it, and acquires
//! those of the one before: a hart that finds a domain parked sees all of its OS's memory.
//!
//! The parking hart writes the state and then reads the harts' states. A hart that starts another
//! claims that one's state and then reads the domain's. A fence between the two steps, on both
//! sides, lets one of them see the other (C11, sequential consistency).

use thiserror::Error;

use super::sync::{AtomicU8, Ordering, fence};

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
    /// A hart puts it to sleep, and waits for the others. No hart starts.
    Parking = 5,
}

impl DomainState {
    const ALL: [DomainState; 6] = [
        DomainState::Running,
        DomainState::Parked,
        DomainState::Asleep,
        DomainState::Waking,
        DomainState::Ended,
        DomainState::Parking,
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
        /// Parking -> Parked, by the domain's only hart that is not stopped.
        park: Parking -> Parked;
        /// Parking -> Running, as another hart of the domain runs.
        stay_running: Parking -> Running;
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
        /// Waking -> Ended, by the hart that wakes the machine: the domain's image could not be
        /// loaded.
        give_up: Waking -> Ended;
    }

    /// Running -> Parking: from here on no hart of the domain starts another.
    ///
    /// # Errors
    ///
    /// [`WrongDomainState`]; nothing has changed.
    pub fn begin_park(&self) -> Result<(), WrongDomainState> {
        self.advance(DomainState::Running, DomainState::Parking)?;
        // Before the harts' states are read; see above.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Returns whether no hart runs the domain's OS or is about to, except by this set's wake: its
    /// stopped harts may work for others.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        match self.state() {
            DomainState::Asleep | DomainState::Waking | DomainState::Ended => true,
            DomainState::Running | DomainState::Parking | DomainState::Parked => false,
        }
    }

    /// Returns whether a hart of the domain may start another, whose state it has claimed.
    #[must_use]
    pub fn may_start_hart(&self) -> bool {
        // After the claim; see above.
        fence(Ordering::SeqCst);
        self.state() == DomainState::Running
    }

    /// Running or Parking -> Ended, by a hart of the domain.
    ///
    /// # Errors
    ///
    /// [`WrongDomainState`]; nothing has changed.
    pub fn end(&self) -> Result<(), WrongDomainState> {
        loop {
            let ended = self.advance(DomainState::Running, DomainState::Ended);
            let Err(WrongDomainState(DomainState::Parking)) = ended else {
                return ended;
            };
            let ended = self.advance(DomainState::Parking, DomainState::Ended);
            // Its sleep was refused meanwhile: it runs again, for as long as this hart does.
            if ended != Err(WrongDomainState(DomainState::Running)) {
                return ended;
            }
        }
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
