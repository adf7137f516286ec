//! Where the times of a sleep's phases come from.

use serde::Deserialize;
use uom::si::f64::Time;

/// A part of Poorwill's sleeps and wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasuredPart {
    /// The kernel on its way down.
    KernelSleep,
    /// The firmware, but for saving.
    FirmwareSleep,
    /// Saving the image.
    Save,
    /// The firmware, but for loading.
    FirmwareWake,
    /// Loading the image.
    Load,
    /// The kernel on its way up.
    KernelWake,
}

/// Where the times of phases come from.
pub trait Times {
    /// How long this took; `None`: as long as the profile says.
    fn of(&self, part: MeasuredPart) -> Option<Time>;

    /// Whether what the machine could do without is left out.
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
