use core::fmt;

use arrayvec::ArrayVec;

use super::Kind;

/// The most bridges between the host bridge and a device.
pub const MAX_DEPTH: usize = 7;

/// The most devices that a search lists.
pub const MAX_DEVICES: usize = 16;

/// The most IOMMUs below a host bridge.
pub const MAX_IOMMUS: usize = 4;

/// One step of the path from the host bridge to a device: a function on its bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Device on its bus, 0 to 31.
    pub device: u8,
    /// Function of the device, 0 to 7.
    pub function: u8,
}

/// A device and its place, independent of bus numbers: the bridges above it, from the
/// host bridge down, and its own function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    pub(super) bridges: ArrayVec<Step, MAX_DEPTH>,
    pub(super) function: Step,
    pub(super) kind: Kind,
}

impl Location {
    /// The device of a kind below `bridges`, which start with the one nearest to the host
    /// bridge; `None` if there are more than [`MAX_DEPTH`].
    #[must_use]
    pub fn new(kind: Kind, bridges: &[Step], function: Step) -> Option<Self> {
        let bridges = ArrayVec::try_from(bridges).ok()?;
        Some(Location {
            bridges,
            function,
            kind,
        })
    }

    /// The kind of the device.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:02x}.{}", self.device, self.function)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bridge in &self.bridges {
            write!(out, "{bridge}/")?;
        }
        write!(out, "{}", self.function)
    }
}
