//! The reasons why the record of a cut does not fit the machine.

use core::fmt;

use poorwill_image::StateError;
use thiserror::Error;

/// Why the record of a cut does not fit this machine. It was made by another machine or another
/// firmware.
#[allow(missing_docs, reason = "their messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misfit {
    /// The reason of an earlier start: its record does not say more.
    #[error("the record does not fit this machine")]
    Unnamed,
    #[error("the record's sections are malformed")]
    Malformed,
    #[error("the record's section {} has another layout than this firmware's", Tag(*.0))]
    Section(u32),
    #[error("this firmware does not know the record's section {}", Tag(*.0))]
    Unknown(u32),
    #[error("the record has no wake vector")]
    NoCore,
    /// Memory, harts, instruction set or device tree differ.
    #[error("the record is of another machine")]
    Machine,
    #[error("the record is of other harts")]
    Harts,
    #[error("the record's device tree has another length")]
    DeviceTree,
    /// The part has registers that such a hart does not have, or lacks some.
    #[error("the record's state of hart {0} does not fit it")]
    Hart(u64),
    #[error("this machine has no hart {0}, which slept")]
    NoHart(u64),
    #[error("the record's wake vector {0:#x} is not in OS memory")]
    WakeVector(u64),
    #[error("the record has another number of wear registers")]
    WearRegisters,
    #[error("the PCI bus differs from the record")]
    Pci,
}

/// Shows an owner of sections by its four letters.
struct Tag(u32);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = self.0.to_le_bytes();
        (letters.iter()).try_for_each(|letter| letter.escape_ascii().fmt(f))
    }
}

impl From<StateError> for Misfit {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Payload { owner, .. } => Misfit::Section(owner),
            StateError::Malformed(_)
            | StateError::TooMany
            | StateError::Twice { .. }
            | StateError::NoRoom { .. } => Misfit::Malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_misfit_names_the_section() {
        let owner = u32::from_le_bytes(*b"UART");
        let payload = StateError::Payload {
            owner,
            version: 2,
            found: 3,
        };
        assert_eq!(
            Misfit::from(payload).to_string(),
            "the record's section UART has another layout than this firmware's"
        );
    }
}
