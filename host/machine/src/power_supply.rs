//! The power supply of a machine with persistent memory ([`PowerSupply`]), and the clock that
//! converts its hold-up to instructions ([`Clock`]).

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// The power-fail line's source at the PLIC or APLIC. No device of `virt` uses it.
pub(crate) const SOURCE: u32 = 60;

/// A power supply with a power-fail line and a hold-up. The machine runs under the plugin for QEMU,
/// which models caches that lose unwritten lines, and a time base of 1 ns for each instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PowerSupply {
    /// The hold-up, in the machine's time ([`Clock`]).
    pub hold_up: Duration,
    /// The machine's clock.
    pub clock: Clock,
    pub plugin: PathBuf,
    /// The program that starts the kernel from flash.
    pub loader: PathBuf,
}

/// The clock rate of the modelled machine, with 0.66 instructions a cycle (LightPC, section VI).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    mhz: u64,
}

/// Instructions in 100 cycles.
const PER_HUNDRED_CYCLES: u64 = 66;

/// Length of a tick of `time` on QEMU's `virt` board.
const NS_PER_TICK: u64 = 100;

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a clock: write GHz from 0.01 to 100, such as 0.4 or 1.6")]
pub struct ClockError(String);

impl Default for Clock {
    /// The rate of LightPC's prototype: 0.4 GHz.
    fn default() -> Self {
        Clock { mhz: 400 }
    }
}

impl FromStr for Clock {
    type Err = ClockError;

    fn from_str(text: &str) -> Result<Self, ClockError> {
        let ghz = text.parse::<f64>().ok();
        let ghz = ghz.filter(|ghz| (0.01..=100.0).contains(ghz));
        let mhz = ghz.and_then(|ghz| format!("{:.0}", ghz * 1000.0).parse().ok());
        mhz.map(|mhz| Clock { mhz })
            .ok_or_else(|| ClockError(text.to_owned()))
    }
}

impl Clock {
    /// Number of instructions that a hart executes in `time`.
    #[must_use]
    pub fn instructions_in(self, time: Duration) -> u64 {
        let per_ms = u128::from(self.mhz * PER_HUNDRED_CYCLES);
        let instructions = time.as_nanos() * per_ms / 100_000;
        u64::try_from(instructions).unwrap_or(u64::MAX)
    }

    /// Time that a hart takes for `instructions`.
    #[must_use]
    pub fn time_of(self, instructions: u64) -> Duration {
        let per_ms = u128::from(self.mhz * PER_HUNDRED_CYCLES);
        let ns = u128::from(instructions) * 100_000 / per_ms;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Time that a hart takes for the instructions in `ticks` of its own `time`.
    #[must_use]
    pub fn time_of_ticks(self, ticks: u64) -> Duration {
        self.time_of(ticks.saturating_mul(NS_PER_TICK))
    }
}

impl PowerSupply {
    /// The hold-up in instructions. In the plugin's time base each takes a nanosecond.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.clock.instructions_in(self.hold_up)
    }

    /// The hold-up in the machine's own microseconds; `None`: too large for the device tree.
    #[must_use]
    pub fn hold_up_us(&self) -> Option<u32> {
        let us = u32::try_from(self.instructions() / 1000).ok();
        us.filter(|us| *us > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supply(hold_up: Duration, clock: &str) -> PowerSupply {
        PowerSupply {
            hold_up,
            clock: clock.parse().unwrap(),
            plugin: "plugin".into(),
            loader: "loader".into(),
        }
    }

    #[test]
    fn a_hold_up_is_so_many_instructions() {
        let ms = Duration::from_millis(16);
        for (clock, instructions) in [("0.4", 4_224_000), ("1.6", 16_896_000)] {
            let supply = supply(ms, clock);
            assert_eq!(supply.instructions(), instructions);
            assert_eq!(u64::from(supply.hold_up_us().unwrap()), instructions / 1000);
            assert_eq!(supply.clock.time_of(instructions), ms);
        }
        assert_eq!(supply(ms, "0.4").clock, Clock::default());
        let short = supply(Duration::from_micros(100), "0.4");
        assert_eq!(
            (short.instructions(), short.hold_up_us()),
            (26_400, Some(26))
        );
    }

    #[test]
    fn ticks_of_a_cut_are_told_in_the_machines_time() {
        // 264 instructions take a microsecond at 0.4 GHz.
        let took = Clock::default().time_of_ticks(2640);
        assert_eq!(took, Duration::from_millis(1));
    }

    #[test]
    fn what_no_tree_can_say_is_none() {
        assert_eq!(supply(Duration::from_micros(1), "0.4").hold_up_us(), None);
        assert_eq!(
            supply(Duration::from_secs(1 << 20), "100").hold_up_us(),
            None
        );
        for text in ["", "fast", "0", "-1", "101", "NaN", "0.4GHz"] {
            let error = text.parse::<Clock>().unwrap_err().to_string();
            assert!(error.contains("0.4 or 1.6"), "{error}");
        }
    }
}
