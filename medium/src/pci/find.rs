use arrayvec::ArrayVec;

use super::bus::{Bus, Present};
use super::journal::Journal;
use super::power::is_bridge;
use super::register::{CLASS, CLASS_NVME};
use super::{ConfigSpace, Function, HostBridge, Location, MAX_DEPTH, PciError, Step};
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
    let mut walk = Walk {
        search: Search::default(),
        buses: MAX_BUSES,
    };
    walk.look(config, clock, Bus::root(host), &ArrayVec::new());
    walk.search
}

/// Buses looked at, at most: as many as there are numbers, so that bridges that
/// lie about theirs cannot lead the search on for years.
const MAX_BUSES: u32 = 256;

struct Walk {
    search: Search,
    /// How many more buses are looked at.
    buses: u32,
}

impl Walk {
    fn look(
        &mut self,
        config: &impl ConfigSpace,
        clock: &impl Clock,
        bus: Bus,
        bridges: &ArrayVec<Step, MAX_DEPTH>,
    ) {
        for Present { function, header } in bus.functions(config) {
            let controller = Step {
                device: function.device,
                function: function.function,
            };
            if is_bridge(header) {
                let mut below = bridges.clone();
                match below.try_push(controller) {
                    Ok(()) => self.look_behind(config, clock, (bus, function), &below),
                    Err(_) => self.complain(PciError::TooDeep(function)),
                }
            } else if is_controller(config, function, header) {
                let bridges = bridges.clone();
                let location = Location {
                    bridges,
                    controller,
                };
                if self.search.controllers.try_push(location).is_err() {
                    self.complain(PciError::TooMany(function));
                }
            }
        }
    }

    fn look_behind(
        &mut self,
        config: &impl ConfigSpace,
        clock: &impl Clock,
        (bus, bridge): (Bus, Function),
        bridges: &ArrayVec<Step, MAX_DEPTH>,
    ) {
        let Some(left) = self.buses.checked_sub(1) else {
            return self.complain(PciError::NoBus(bridge));
        };
        self.buses = left;
        let mut journal = Journal::default();
        match bus.behind(config, clock, bridge, &mut journal) {
            Ok(behind) => self.look(config, clock, behind, bridges),
            Err(error) => self.complain(error),
        }
        journal.undo(config, clock, None);
    }

    fn complain(&mut self, error: PciError) {
        self.search.complaint.get_or_insert(error);
    }
}

/// Whether a function is an NVMe controller.
pub(super) fn is_controller(config: &impl ConfigSpace, function: Function, header: u32) -> bool {
    header >> 16 & 0x7f == 0 && config.read32(function, CLASS) >> 8 == CLASS_NVME
}
