use core::fmt;
use core::str::FromStr;

use thiserror::Error;

/// A sleep mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SleepMode {
    /// Save the machine to the sleep area, and power off.
    Persist = 1,
    /// Keep RAM powered and the harts parked.
    Retain = 2,
    /// Retain first; after the stage delay, persist without waking the OS.
    Staged = 3,
    /// Like staged, but persist at the machine's break-even time.
    Auto = 4,
    /// Leave everything in persistent RAM, and power off. Without persistent RAM:
    /// [`Persist`](Self::Persist).
    Cut = 5,
}

impl SleepMode {
    /// All modes.
    pub const ALL: [SleepMode; 5] = [
        SleepMode::Persist,
        SleepMode::Retain,
        SleepMode::Staged,
        SleepMode::Auto,
        SleepMode::Cut,
    ];

    /// The mode's name in all interfaces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SleepMode::Persist => "persist",
            SleepMode::Retain => "retain",
            SleepMode::Staged => "staged",
            SleepMode::Auto => "auto",
            SleepMode::Cut => "cut",
        }
    }
}

impl fmt::Display for SleepMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text is not a sleep mode's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a sleep mode: there are persist, retain, staged, auto and cut")]
pub struct UnknownMode;

impl FromStr for SleepMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        SleepMode::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or(UnknownMode)
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn the_modes_are_pinned() {
        assert_eq!(SleepMode::ALL.map(|mode| mode as u32), [1, 2, 3, 4, 5]);
        let names = ["persist", "retain", "staged", "auto", "cut"];
        assert_eq!(SleepMode::ALL.map(SleepMode::name), names);
        for mode in SleepMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for text in ["", "Persist", "persist ", "mem", "retai"] {
            assert_eq!(text.parse::<SleepMode>(), Err(UnknownMode), "{text:?}");
        }
    }
}
