//! Sources of the times of a sleep's phases.

use serde::Deserialize;
use uom::si::f64::Time;

/// A part of Poorwill's sleeps and wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredPart {
    /// The kernel's suspend.
    KernelSleep,
    /// The firmware's sleep, without saving.
    FirmwareSleep,
    Save,
    /// The firmware's wake, without loading.
    FirmwareWake,
    Load,
    /// The kernel's resume.
    KernelWake,
}

/// A source of the times of phases.
pub trait Times {
    /// The time of this part; `None`: the profile's.
    fn of(&self, part: MeasuredPart) -> Option<Time>;

    /// Whether avoidable parts are left out.
    fn without_avoidable(&self) -> bool {
        false
    }
}

/// The times of the profile itself.
#[derive(Clone, Copy, Debug)]
pub struct Given;

impl Times for Given {
    fn of(&self, _: MeasuredPart) -> Option<Time> {
        None
    }
}
