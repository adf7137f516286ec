//! Where the times of a sleep's phases come from.

use serde::Deserialize;
use uom::si::f64::Time;

/// A part of a sleep or a wake that a bench measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredPart {
    /// The kernel's suspend.
    KernelSleep,
    /// The firmware's part of the sleep, without the save.
    FirmwareSleep,
    Save,
    /// The firmware's part of the wake, without the load.
    FirmwareWake,
    Load,
    /// The kernel's resume.
    KernelWake,
}

/// A source of the times of phases.
pub trait Times {
    /// The time of a part; `None`: use the profile's.
    fn of(&self, part: MeasuredPart) -> Option<Time>;

    /// Whether avoidable parts are left out of the phases.
    fn without_avoidable(&self) -> bool {
        false
    }
}

/// Uses the profile's own times.
#[derive(Clone, Copy, Debug)]
pub struct Given;

impl Times for Given {
    fn of(&self, _: MeasuredPart) -> Option<Time> {
        None
    }
}
