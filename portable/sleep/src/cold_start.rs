use poorwill_store::{Failure, MAX_PARTS};

use crate::error::{ColdBoot, NoWake};

/// Why a machine boots cold, and each of its domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdStart {
    /// The machine's reason.
    reason: ColdBoot,
    /// Why domains did not wake with the others at the last wake, by their indexes.
    failures: [Option<Failure>; MAX_PARTS],
}

impl From<ColdBoot> for ColdStart {
    fn from(reason: ColdBoot) -> Self {
        ColdStart {
            reason,
            failures: [None; MAX_PARTS],
        }
    }
}

impl ColdStart {
    /// The machine's reason.
    #[must_use]
    pub fn reason(&self) -> ColdBoot {
        self.reason
    }

    /// The reason of the domain with this index in the order of wakes.
    #[must_use]
    pub fn of(&self, index: usize) -> ColdBoot {
        match self.failures.get(index) {
            Some(Some(failure)) => NoWake::LastWakeFailed(*failure).into(),
            _ => self.reason,
        }
    }

    /// The same, with another reason of the machine.
    #[must_use]
    pub fn because(self, reason: ColdBoot) -> Self {
        ColdStart { reason, ..self }
    }

    /// Notes why a domain did not wake.
    pub(crate) fn fail(&mut self, index: usize, failure: Failure) {
        self.failures[index] = Some(failure);
    }
}
