//! Why a profile is refused.

use std::io;

use thiserror::Error;

/// Why there is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// Not one of those that are built in.
    #[error(
        "there is no profile {name:?}: the built-in ones are {known}; `--profile FILE` reads one of yours"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Cannot be read.
    #[error("cannot read the profile {file}: {reason}")]
    Read {
        /// The file.
        file: String,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// No TOML, a field that is missing, one that does not exist, or of another type.
    #[error("{file} is no profile: {reason}")]
    Malformed {
        /// The file.
        file: String,
        /// Where and why.
        reason: toml::de::Error,
    },
    /// A profile by its form, but not by what it says.
    #[error("{file}: {place}: {fault}")]
    Wrong {
        /// The file.
        file: String,
        /// Where in it.
        place: String,
        /// What is wrong there.
        fault: Fault,
    },
}

/// What may be wrong with a figure, a phase or a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// Below zero, infinite, or not a number.
    #[error("must be a finite number, zero or more")]
    NotANumber,
    /// A divisor.
    #[error("must be more than zero")]
    Zero,
    /// A source without a word.
    #[error("its source is empty: name a table, or write `given` or `assumed` and why")]
    NoSource,
    /// Too little or too much is known.
    #[error("give two of `watts`, `seconds` and `joules`, or `watts` and `measured`")]
    Undetermined,
    /// Parts need exactly one that takes the rest.
    #[error(
        "exactly one of its parts must be without `seconds`: it takes what the others leave of the phase's own `seconds`"
    )]
    NoRest,
    /// Parts are longer than their phase.
    #[error("its parts take longer than the whole")]
    PartsTooLong,
    /// Two modes under one name.
    #[error("another mode has the same name")]
    NameTaken,
    /// There is nothing to reckon with.
    #[error("there is no mode")]
    NoMode,
}
