//! The domains of a wake, and their lines on the console.

use arrayvec::ArrayVec;
use poorwill_store::{Failure, MAX_PARTS};

use crate::error::ColdBoot;
use crate::event::{Event, WakeReport};
use crate::machine::{Domain, Machine, Outcome, Resume};

/// What has become of the domains of a wake.
#[derive(Debug)]
pub(crate) struct Woken<R> {
    /// Number of the machine's domains.
    domains: usize,
    /// The time of the power-on, in ticks.
    began: u64,
    ends: ArrayVec<(usize, End), MAX_PARTS>,
    /// The outcome of the domain that wakes last.
    pub(crate) last: Outcome<R>,
}

/// What has become of a domain.
#[derive(Clone, Copy, Debug)]
enum End {
    Wakes {
        wake: WakeReport,
        /// Ticks from the power-on until the domain goes on.
        after: u64,
    },
    Cold(ColdBoot),
    Ended(Failure),
}

impl<R> Woken<R> {
    pub(crate) fn new(domains: usize, began: u64) -> Self {
        Woken {
            domains,
            began,
            ends: ArrayVec::new(),
            last: Outcome::Cold(ColdBoot::NoPart),
        }
    }

    /// Notes the outcome of the domain with this index, and lets the domain go on, unless it is the
    /// last one.
    pub(crate) fn add<M>(
        &mut self,
        machine: &M,
        (index, domain): (usize, &M::Domain),
        outcome: Outcome<(Resume<M>, WakeReport)>,
    ) where
        M: Machine,
        M::Domain: Domain<Resume = R>,
    {
        let after = machine.ticks().saturating_sub(self.began);
        let (end, outcome) = match outcome {
            Outcome::Wakes((resume, wake)) => (End::Wakes { wake, after }, Outcome::Wakes(resume)),
            Outcome::Cold(reason) => (End::Cold(reason), Outcome::Cold(reason)),
            Outcome::Ended(failure) => (End::Ended(failure), Outcome::Ended(failure)),
        };
        self.ends.push((index, end));
        match index + 1 == self.domains {
            true => self.last = outcome,
            false => machine.release(domain, outcome),
        }
    }

    /// The domains that ended, by their indexes, with the reasons.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (usize, Failure)> {
        self.ends.iter().filter_map(|(index, end)| match end {
            End::Ended(failure) => Some((*index, *failure)),
            End::Wakes { .. } | End::Cold(_) => None,
        })
    }

    /// Writes the lines. The domains that go on already did not wait for them.
    pub(crate) fn say<M: Machine>(&self, machine: &M, names: &[&str], sealed: bool) {
        for (index, end) in &self.ends {
            let name = names[*index];
            match end {
                End::Wakes { wake, .. } if name.is_empty() => machine.say(&Event::Woken {
                    wake,
                    ms: machine.milliseconds_since(self.began),
                    sealed,
                }),
                End::Wakes { wake, after } => machine.say(&Event::DomainWoken {
                    domain: name,
                    wake,
                    us: machine.milliseconds_in(after.saturating_mul(1000)),
                }),
                End::Cold(reason) => machine.say(&Event::DomainCold {
                    domain: name,
                    reason: *reason,
                }),
                End::Ended(failure) => machine.say(&Event::DomainNotLoaded {
                    domain: name,
                    failure: *failure,
                }),
            }
        }
    }
}
