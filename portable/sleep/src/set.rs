//! The domains of a machine, in the order in which they wake: one or more. A lone OS is a set of
//! one.
//!
//! The master puts the machine to sleep when all others are parked or ended. It then sleeps like
//! them. After the machine's wake event each domain wakes the next one just before its OS
//! continues.

use super::domain_state::{DomainCell, DomainState, WrongDomainState};
use super::sync::{Ordering, fence};

/// A domain of a set.
pub trait Member {
    /// Its state.
    fn cell(&self) -> &DomainCell;
}

impl Member for DomainCell {
    fn cell(&self) -> &DomainCell {
        self
    }
}

/// The domains of a machine.
#[derive(Clone, Copy, Debug)]
pub struct DomainSet<'s, D>(&'s [D]);

/// What the end of a domain leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Other domains go on.
    Others,
    /// No domain is left: the machine resets.
    None,
}

impl<'s, D: Member> DomainSet<'s, D> {
    /// The set of these domains, which are in the order of their wakes.
    pub const fn new(domains: &'s [D]) -> Self {
        DomainSet(domains)
    }

    /// The first domain that keeps the machine awake, if its `master` asks for a sleep. The answer
    /// comes without a wait, and may change.
    #[must_use]
    pub fn keeps_awake(&self, master: &D) -> Option<&'s D> {
        self.0.iter().find(|domain| match domain.cell().state() {
            DomainState::Parked | DomainState::Ended => false,
            DomainState::Running
            | DomainState::Parking
            | DomainState::Asleep
            | DomainState::Waking => !core::ptr::eq(*domain, master),
        })
    }

    /// Puts all domains to sleep with the machine, the master included, or none of them. An ended
    /// domain stays ended.
    ///
    /// # Errors
    ///
    /// The first domain that is neither parked nor ended. The domains before it are parked as
    /// before. Their harts may have missed a wake event meanwhile, so the caller interrupts them.
    pub fn fall_asleep(&self) -> Result<(), &'s D> {
        for (index, domain) in self.0.iter().enumerate() {
            match domain.cell().sleep() {
                Ok(()) | Err(WrongDomainState(DomainState::Ended)) => {}
                Err(_) => {
                    DomainSet(&self.0[..index]).stay_parked();
                    return Err(domain);
                }
            }
        }
        Ok(())
    }

    /// Parks all domains again, as the machine does not sleep. Their harts may have missed a wake
    /// event meanwhile, so the caller interrupts them.
    pub fn stay_parked(&self) {
        for domain in self.0 {
            // An ended domain does not sleep.
            _ = domain.cell().stay_parked();
        }
    }

    /// Wakes the first domain that sleeps with the machine, of those from `from` on. The caller
    /// interrupts its hart.
    #[must_use]
    pub fn wake_next(&self, from: usize) -> Option<&'s D> {
        let mut rest = self.0.iter().skip(from);
        rest.find(|domain| domain.cell().wake().is_ok())
    }

    /// Ends a domain of the set, by one of its harts.
    ///
    /// # Errors
    ///
    /// [`WrongDomainState`], if it neither runs nor parks; nothing has changed.
    pub fn end(&self, domain: &D) -> Result<Remaining, WrongDomainState> {
        domain.cell().end()?;
        // Two domains may end at the same time: one of them sees that the other has, too.
        fence(Ordering::SeqCst);
        let goes_on = |domain: &D| domain.cell().state() != DomainState::Ended;
        Ok(match self.0.iter().any(goes_on) {
            true => Remaining::Others,
            false => Remaining::None,
        })
    }
}
