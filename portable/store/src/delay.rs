use core::fmt;
use core::ops::RangeInclusive;

use thiserror::Error;

/// The longest wait for a key, which delays every power-on: 10 s.
pub const LONGEST_KEY_MS: u32 = 10_000;

/// The default stage delay: 30 minutes. A user who returns earlier does not wait, and
/// retaining uses little of a night's energy.
pub const DEFAULT_STAGE_DELAY_MS: u64 = 30 * 60 * 1000;

/// The longest delay: 30 days. For longer delays, use
/// [`SleepMode::Retain`](crate::SleepMode::Retain).
pub const LONGEST_DELAY_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// A time in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// [`Configuration::stage_delay_ms`](crate::Configuration::stage_delay_ms).
    Stage,
    /// [`Configuration::break_even_ms`](crate::Configuration::break_even_ms).
    BreakEven,
    /// [`SnapshotRules::key_ms`](crate::SnapshotRules::key_ms).
    Key,
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Delay::Stage => "stage delay",
            Delay::BreakEven => "break-even",
            Delay::Key => "wait for a key",
        })
    }
}

impl Delay {
    /// The valid range in ms.
    #[must_use]
    pub fn bounds_ms(self) -> RangeInclusive<u64> {
        match self {
            Delay::Stage => 1..=LONGEST_DELAY_MS,
            Delay::BreakEven => 0..=LONGEST_DELAY_MS,
            Delay::Key => 0..=LONGEST_KEY_MS.into(),
        }
    }

    fn limits(self) -> &'static str {
        match self {
            Delay::Stage | Delay::BreakEven => "1 ms to 30 days",
            Delay::Key => "0 to 10 s",
        }
    }
}

/// A delay that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a {delay} of {ms} ms is out of range: set {}", delay.limits())]
pub struct DelayError {
    /// The delay that is out of range.
    pub delay: Delay,
    /// Its value in ms.
    pub ms: u64,
}
