use core::fmt;
use core::ops::RangeInclusive;

use thiserror::Error;

/// The longest time that a key is waited for: 10 s, as every power-on takes that
/// much longer.
pub const LONGEST_KEY_MS: u32 = 10_000;

/// The stage delay of a machine that has not been told one: 30 minutes. Who is
/// back sooner does not wait, and of a night hardly anything is spent retaining.
pub const DEFAULT_STAGE_DELAY_MS: u64 = 30 * 60 * 1000;

/// The longest delay: 30 days. Who wants to wait longer wants
/// [`SleepMode::Retain`](crate::SleepMode::Retain).
pub const LONGEST_DELAY_MS: u64 = 30 * 24 * 60 * 60 * 1000;

/// A time that a configuration holds.
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
    /// The shortest and the longest that can be set, in ms.
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
            Delay::Stage | Delay::BreakEven => "at least 1 ms, and at most 30 days,",
            Delay::Key => "at most 10 s",
        }
    }
}

/// A delay that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a {delay} of {ms} ms: {} can be set", delay.limits())]
pub struct DelayError {
    /// Which one.
    pub delay: Delay,
    /// What it was to be, in ms.
    pub ms: u64,
}
