//! Power supplies, and how long they last.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// A power supply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supply {
    /// The name that users give, or the duration.
    pub name: String,
    /// Microseconds for which the power lasts after the power-fail line, from 1.
    pub hold_up_us: u32,
    /// The figure's source.
    pub source: &'static str,
}

/// The text names no supply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no power supply: write {known}, or a hold-up from 1us to 1h such as 16ms", known = known())]
pub struct SupplyError(String);

/// The supplies with names: microseconds, and their source.
pub const SUPPLIES: [(&str, u32, &str); 2] = [
    (
        "atx",
        16_000,
        "the ATX specification's hold-up at full load, which LightPC cites (III-B; it measured 22 ms on a Super Flower SF-600R12A)",
    ),
    (
        "server",
        55_000,
        "a Dell 770-BCBD at full load, measured by LightPC (III-B, figure 8a); it cites no specification",
    ),
];

fn known() -> String {
    SUPPLIES.map(|(name, ..)| name).join(", ")
}

/// The longest hold-up. The device tree's property could have 71 minutes.
const LONGEST: Duration = Duration::from_secs(3600);

impl Default for Supply {
    /// An ATX supply.
    fn default() -> Self {
        let (name, hold_up_us, source) = SUPPLIES[0];
        Supply {
            name: name.to_owned(),
            hold_up_us,
            source,
        }
    }
}

impl FromStr for Supply {
    type Err = SupplyError;

    fn from_str(text: &str) -> Result<Self, SupplyError> {
        if let Some((name, hold_up_us, source)) = SUPPLIES.iter().find(|(name, ..)| *name == text) {
            return Ok(Supply {
                name: (*name).to_owned(),
                hold_up_us: *hold_up_us,
                source,
            });
        }
        let hold_up = humantime::parse_duration(text).ok();
        let hold_up = hold_up.filter(|hold_up| *hold_up <= LONGEST);
        let hold_up_us = hold_up.and_then(|hold_up| u32::try_from(hold_up.as_micros()).ok());
        match hold_up_us.filter(|us| *us > 0) {
            Some(hold_up_us) => Ok(Supply {
                name: text.to_owned(),
                hold_up_us,
                source: "given",
            }),
            None => Err(SupplyError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supply_is_a_name_or_a_duration() {
        let us = |text: &str| text.parse::<Supply>().map(|supply| supply.hold_up_us);
        assert_eq!(us("atx"), Ok(16_000));
        assert_eq!(us("server"), Ok(55_000));
        assert_eq!(us("16ms"), us("atx"));
        assert_eq!(us("1h"), Ok(3_600_000_000));
        for bad in ["", "ATX 3", "16", "0s", "10ns", "2h", "-1ms", "999999years"] {
            let error = us(bad).unwrap_err().to_string();
            assert!(error.contains("atx, server, or a hold-up"), "{error}");
        }
    }
}
