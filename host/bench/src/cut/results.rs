//! The results of `poorwill bench cut`.

use serde::{Deserialize, Serialize};

use super::lines;
use super::machine::Subject;
use super::traced::{Assumptions, Measured};
use super::work::Work;

/// Measured cuts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// The measured machines.
    pub machines: Vec<Measured>,
    /// What was assumed of them.
    pub assumed: Assumptions,
}

impl Cuts {
    /// The cuts of one machine.
    #[must_use]
    pub fn find(&self, subject: Subject) -> Option<&Measured> {
        self.machines.iter().find(|one| one.subject == subject)
    }

    /// The straight lines through these measurements, if there are enough.
    #[must_use]
    pub fn work(&self) -> Option<Work> {
        lines::work(&self.machines)
    }
}
