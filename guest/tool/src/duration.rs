use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// A time in ms, written as `90s`, `30min` or `1h 30min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Milliseconds(pub(crate) u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a duration: write a whole number and ms, s, min, h or d, such as 90s or 30min")]
pub(crate) struct DurationError;

/// The units: the accepted spellings, the first of which is printed, and the length in ms.
const UNITS: [(&[&str], u64); 5] = [
    (&["d", "day", "days"], 24 * 60 * 60 * 1000),
    (&["h"], 60 * 60 * 1000),
    (&["min", "m"], 60 * 1000),
    (&["s", "sec"], 1000),
    (&["ms"], 1),
];

impl FromStr for Milliseconds {
    type Err = DurationError;

    /// Parses a time. A value above all limits becomes the largest one.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let mut rest = text.trim_ascii();
        let mut ms: u64 = 0;
        loop {
            let (number, behind) = split(rest, |c| c.is_ascii_digit());
            let (unit, behind) = split(behind.trim_ascii_start(), |c| c.is_ascii_alphabetic());
            let (_, each) = UNITS
                .into_iter()
                .find(|(names, _)| names.contains(&unit))
                .ok_or(DurationError)?;
            let count = match number {
                "" => return Err(DurationError),
                digits => digits.parse().unwrap_or(u64::MAX),
            };
            ms = ms.saturating_add(each.saturating_mul(count));
            rest = behind.trim_ascii_start();
            if rest.is_empty() {
                return Ok(Milliseconds(ms));
            }
        }
    }
}

/// Splits a text before its first character for which `belongs` does not hold.
fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut space = "";
        for (names, each) in UNITS {
            let count = rest / each;
            rest %= each;
            if count > 0 {
                write!(f, "{space}{count}{}", names[0])?;
                space = " ";
            }
        }
        if self.0 == 0 {
            f.write_str("0ms")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        let cases = [
            ("90s", 90_000, "1min 30s"),
            ("30min", 1_800_000, "30min"),
            ("30 m", 1_800_000, "30min"),
            ("2h", 7_200_000, "2h"),
            (" 1h 30min ", 5_400_000, "1h 30min"),
            ("1h30min", 5_400_000, "1h 30min"),
            ("30days", 2_592_000_000, "30d"),
            ("1500ms", 1500, "1s 500ms"),
            ("0s", 0, "0ms"),
        ];
        for (text, ms, written) in cases {
            assert_eq!(text.parse(), Ok(Milliseconds(ms)), "{text}");
            assert_eq!(Milliseconds(ms).to_string(), written);
        }
    }

    #[test]
    fn what_is_too_long_is_the_longest() {
        for text in [
            "99999999999999999999s",
            "18446744073709551615d",
            "18446744073709551615ms 1s",
        ] {
            assert_eq!(text.parse(), Ok(Milliseconds(u64::MAX)), "{text}");
        }
    }

    #[test]
    fn the_rest_is_refused() {
        for text in [
            "", " ", "30", "min", "-1s", "1.5h", "30 min 5", "5x", "1s,", "1S", "³s", "1é",
        ] {
            assert_eq!(text.parse::<Milliseconds>(), Err(DurationError), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ms: u64) {
            prop_assert_eq!(Milliseconds(ms).to_string().parse(), Ok(Milliseconds(ms)));
        }

        #[test]
        fn no_text_leads_astray(text in "[0-9a-zé .-]{0,12}") {
            let _ = text.parse::<Milliseconds>();
        }
    }
}
