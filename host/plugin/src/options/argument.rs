//! One argument, and the parsing of its value.

use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use thiserror::Error;

use super::code;
use crate::cache::GeometryError;

const NUMBER: &str = "a number (decimal, or hexadecimal with 0x)";
const FROM_ONE: &str = "a number from 1";
const SWITCH: &str = "on or off";

/// When the plugin models loads. Loads can only displace lines. Caches that do not see loads have
/// more dirty lines, never fewer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loads {
    /// Never: loads displace no lines.
    Never,
    /// From the start, which costs 1.5 times the time of stores alone.
    Always,
    /// From the signal on. The number of dirty lines is then the largest possible at the signal,
    /// and the firmware's own loads displace lines.
    #[default]
    Signalled,
}

/// Why arguments are refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OptionError {
    #[error("there is no option `{0}`")]
    Unknown(String),
    #[error("`{0}` has no value: write key=value")]
    NoValue(String),
    #[error("`{0}` is given twice")]
    Twice(String),
    #[error("`{key}={value}`: give {wanted}")]
    Malformed {
        key: String,
        value: String,
        wanted: &'static str,
    },
    #[error("`{key}` needs {needed}")]
    Needs {
        key: &'static str,
        needed: &'static str,
    },
    #[error(transparent)]
    Geometry(#[from] GeometryError),
}

/// An argument, with its name for errors.
pub(super) struct Argument<'a> {
    pub(super) key: &'a str,
    pub(super) value: &'a str,
}

impl Argument<'_> {
    pub(super) fn malformed(&self, wanted: &'static str) -> OptionError {
        OptionError::Malformed {
            key: self.key.into(),
            value: self.value.into(),
            wanted,
        }
    }

    pub(super) fn number(&self) -> Result<u64, OptionError> {
        code::number(self.value).ok_or_else(|| self.malformed(NUMBER))
    }

    pub(super) fn ranges(&self) -> Result<Vec<Range<u64>>, OptionError> {
        let wanted = "addresses, or START-END, in order, with + between";
        code::ranges(self.value).ok_or_else(|| self.malformed(wanted))
    }

    pub(super) fn positive(&self) -> Result<u64, OptionError> {
        match self.number()? {
            0 => Err(self.malformed(FROM_ONE)),
            number => Ok(number),
        }
    }

    pub(super) fn within<T: TryFrom<u64>>(
        &self,
        range: RangeInclusive<u64>,
        wanted: &'static str,
    ) -> Result<T, OptionError> {
        let number = Some(self.number()?).filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| self.malformed(wanted))
    }

    pub(super) fn switch(&self) -> Result<bool, OptionError> {
        match self.value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(self.malformed(SWITCH)),
        }
    }

    pub(super) fn loads(&self) -> Result<Loads, OptionError> {
        match self.value {
            "never" => Ok(Loads::Never),
            "always" => Ok(Loads::Always),
            "signalled" => Ok(Loads::Signalled),
            _ => Err(self.malformed("never, always or signalled")),
        }
    }

    pub(super) fn loses(&self) -> Result<bool, OptionError> {
        match self.value {
            "keep" => Ok(false),
            "lose" => Ok(true),
            _ => Err(self.malformed("keep or lose")),
        }
    }

    pub(super) fn path(&self) -> Result<PathBuf, OptionError> {
        match self.value {
            "" => Err(self.malformed("a file name")),
            value => Ok(value.into()),
        }
    }
}
