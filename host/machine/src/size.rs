//! Sizes in bytes, as users and QEMU write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};
use thiserror::Error;

/// A number of bytes, in QEMU's notation: `512M`, `2G` (powers of 1024).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    #[error("{0:?} is not a size: write a whole number and K, M, G or T, such as 512M or 3G")]
    Malformed(String),
    #[error("{0:?} is too large: write a size below 2^64 bytes")]
    TooLarge(String),
}

impl Bytes {
    /// `count` times 1024 * 1024 bytes.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Bytes(count << 20)
    }

    /// `count` times 1024 * 1024 * 1024 bytes.
    #[must_use]
    pub const fn gib(count: u64) -> Self {
        Bytes(count << 30)
    }

    /// The size in MiB, rounded up: the unit of QEMU's `-m`.
    #[must_use]
    pub const fn in_mib(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

impl FromStr for Bytes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let malformed = || SizeError::Malformed(text.to_owned());
        let end = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let shift = match unit.to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KIB" => 10,
            "M" | "MIB" => 20,
            "G" | "GIB" => 30,
            "T" | "TIB" => 40,
            _ => return Err(malformed()),
        };
        if number.is_empty() {
            return Err(malformed());
        }
        number
            .parse::<u64>()
            .ok()
            .and_then(|count| count.checked_mul(1 << shift))
            .map(Bytes)
            .ok_or_else(|| SizeError::TooLarge(text.to_owned()))
    }
}

impl<'d> Deserialize<'d> for Bytes {
    fn deserialize<D: Deserializer<'d>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        indicatif::BinaryBytes(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_qemu_reads() {
        assert_eq!("2G".parse(), Ok(Bytes::gib(2)));
        assert_eq!("512m".parse(), Ok(Bytes::mib(512)));
        assert_eq!("3GiB".parse(), Ok(Bytes::gib(3)));
        assert_eq!("4096".parse(), Ok(Bytes(4096)));
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", "G", "2X", "-1G", "1.5G", "2 G", "two"] {
            assert!(
                matches!(text.parse::<Bytes>(), Err(SizeError::Malformed(_))),
                "{text}"
            );
        }
        for text in ["99999999999999999999", "16777217T"] {
            assert!(
                matches!(text.parse::<Bytes>(), Err(SizeError::TooLarge(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn is_shown_with_its_unit() {
        assert_eq!(Bytes::gib(3).to_string(), "3.00 GiB");
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = text.parse::<Bytes>();
        }

        #[test]
        fn mib_rounds_up(bytes in 0..u64::MAX) {
            let mib = u128::from(Bytes(bytes).in_mib());
            prop_assert!(mib << 20 >= u128::from(bytes) && (mib << 20) < u128::from(bytes) + (1 << 20));
        }
    }
}
