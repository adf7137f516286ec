use arrayvec::ArrayVec;
use poorwill_clock::Clock;

use super::bus::{Bus, Present};
use super::journal::Journal;
use super::register::is_bridge;
use super::{
    ConfigSpace, Function, HostBridge, Kind, Location, MAX_DEPTH, MAX_DEVICES, MAX_IOMMUS,
    PciError, Step,
};

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// The devices that can hold a sleep area, in bus order.
    pub devices: ArrayVec<Location, MAX_DEVICES>,
    /// The IOMMUs. The other devices may reach memory only through them.
    pub iommus: ArrayVec<Location, MAX_IOMMUS>,
    /// An IOMMU is not listed ([`PciError::TooManyIommus`]).
    pub more_iommus: Option<PciError>,
    /// The first error that prevented the search of a part of the bus. The listed devices
    /// can still be used.
    pub complaint: Option<PciError>,
}

/// Searches devices of every [`Kind`] below a host bridge, also below other bridges.
/// Bridges that sleep or have no bus numbers are woken and numbered for the search, and
/// then restored.
///
/// There must be no [`DeviceHandle`](super::DeviceHandle) during the search.
pub fn find(config: &impl ConfigSpace, clock: &impl Clock, host: &HostBridge) -> Search {
    let mut walk = Walk {
        search: Search::default(),
        buses: MAX_BUSES,
    };
    walk.look(config, clock, Bus::root(host), &ArrayVec::new());
    walk.search
}

/// The most buses that are searched: the number of bus numbers, so that faulty bridges
/// cannot make the search endless.
const MAX_BUSES: u32 = 256;

struct Walk {
    search: Search,
    /// The number of buses that may still be searched.
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
            let step = Step {
                device: function.device,
                function: function.function,
            };
            if is_bridge(header) {
                let mut below = bridges.clone();
                match below.try_push(step) {
                    Ok(()) => self.look_behind(config, clock, (bus, function), &below),
                    Err(_) => self.complain(PciError::TooDeep(function)),
                }
            } else if let Some(kind) = Kind::of(config, function, header) {
                let location = Location {
                    bridges: bridges.clone(),
                    function: step,
                    kind,
                };
                self.list(location, function);
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

    fn list(&mut self, location: Location, function: Function) {
        if location.kind == Kind::Iommu {
            if self.search.iommus.try_push(location).is_err() {
                let error = PciError::TooManyIommus(function);
                self.search.more_iommus.get_or_insert(error);
            }
        } else if self.search.devices.try_push(location).is_err() {
            self.complain(PciError::TooMany(function));
        }
    }

    fn complain(&mut self, error: PciError) {
        self.search.complaint.get_or_insert(error);
    }
}
