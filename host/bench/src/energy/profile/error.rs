//! Why a profile is refused.

use std::io;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum ProfileError {
    #[error(
        "there is no profile {name:?}: the built-in ones are {known}; `--profile FILE` reads your own"
    )]
    Unknown { name: String, known: String },
    #[error("cannot read the profile {file}: {reason}")]
    Read { file: String, reason: io::Error },
    #[error("{file} is not a valid profile: {reason}")]
    Malformed {
        file: String,
        reason: toml::de::Error,
    },
    #[error("{file}: {place}: {fault}")]
    Wrong {
        file: String,
        place: String,
        fault: Fault,
    },
}

/// A fault of a figure, a phase or a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    #[error("must be a finite number, zero or more")]
    NotANumber,
    #[error("must be more than zero")]
    Zero,
    #[error("its source is empty: name a table, or write `given` or `assumed` and why")]
    NoSource,
    #[error("give two of `watts`, `seconds` and `joules`, or `watts` and `measured`")]
    Undetermined,
    #[error(
        "exactly one of its parts must be without `seconds`: it gets the rest of the phase's own `seconds`"
    )]
    NoRest,
    #[error("its parts take longer than the whole")]
    PartsTooLong,
    #[error("another mode has the same name")]
    NameTaken,
    #[error("there is no mode: add one")]
    NoMode,
}
