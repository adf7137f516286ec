use arrayvec::ArrayVec;

use super::{ConfigSpace, HostBridge, Location, PciError};
use crate::Clock;

/// How many controllers a search lists.
pub const MAX_CONTROLLERS: usize = 16;

/// What a search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The NVMe controllers, in the order of the bus.
    pub controllers: ArrayVec<Location, MAX_CONTROLLERS>,
    /// Why some part of the bus could not be looked at, if so: the first such
    /// reason. The controllers listed are good all the same.
    pub complaint: Option<PciError>,
}

/// Looks for NVMe controllers (class 01.08.02) below a host bridge, behind
/// bridges too. Bridges that sleep or have no bus numbers are woken and
/// numbered to look behind them, and are put back before this returns.
///
/// No [`Claim`](super::Claim) may be held meanwhile.
pub fn find(config: &impl ConfigSpace, clock: &impl Clock, host: &HostBridge) -> Search {
    let _ = (config, clock, host);
    todo!()
}
