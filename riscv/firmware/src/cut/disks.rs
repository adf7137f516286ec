//! How long NVMe controllers take to shut down. A controller that the OS uses cannot be asked:
//! the facts are from the search for a sleep area at the start, and from the record of the last
//! cut.

use arrayvec::ArrayVec;
use poorwill_arch::pci::config_space;
use poorwill_keepers::MAX_DEVICES;
use poorwill_medium::nvme::ShutdownFacts;
use poorwill_medium::pci::{self, Function, Location};

use super::STATE;
use crate::platform::platform;

/// Where a controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// By the bridges on the way, as bus numbers may change.
    Location(Location),
    /// By the bus numbers of the OS.
    Function(Function),
}

#[derive(Debug)]
pub(super) struct Disk {
    host: usize,
    place: Place,
    facts: ShutdownFacts,
}

/// The disks with known facts.
pub(super) type Disks = ArrayVec<Disk, MAX_DEVICES>;

/// Keeps the facts of a controller in place of earlier ones.
fn keep(host: usize, place: Place, facts: ShutdownFacts) {
    let mut disks = STATE.disks.lock();
    let mut known = disks.iter();
    match known.position(|disk| disk.host == host && disk.place == place) {
        Some(at) => disks[at].facts = facts,
        // The table is full: this disk is dropped.
        None if disks.is_full() => {}
        None => disks.push(Disk { host, place, facts }),
    }
}

/// Keeps facts that the search for a sleep area has found.
pub(crate) fn found(host: usize, location: &Location, facts: ShutdownFacts) {
    keep(host, Place::Location(location.clone()), facts);
}

/// Keeps facts from the record of a cut.
pub(super) fn kept(host: usize, function: Function, facts: ShutdownFacts) {
    keep(host, Place::Function(function), facts);
}

/// The facts of a function, if they are known.
pub(super) fn facts_of(host: usize, function: Function) -> Option<ShutdownFacts> {
    let described = &platform().pci[host];
    // SAFETY: the device tree describes the bridge, and no hart runs the OS.
    let config = unsafe { config_space(described) };
    let disks = STATE.disks.lock();
    let mut of_host = disks.iter().filter(|disk| disk.host == host);
    let disk = of_host.find(|disk| match &disk.place {
        Place::Location(location) => {
            pci::function_at(&config, &described.bridge, location) == Some(function)
        }
        Place::Function(kept) => *kept == function,
    });
    disk.map(|disk| disk.facts)
}

/// Calls `tell` with the location of each disk that would refuse a cut, and with the us that its
/// shutdown may take: in `left_us` it could not store the data that it has acknowledged. Returns
/// the number of such disks.
pub(super) fn too_slow(left_us: u64, tell: impl Fn(&Location, u32)) -> usize {
    let disks = STATE.disks.lock();
    let slow = disks.iter().filter_map(|disk| match &disk.place {
        Place::Location(location) => Some((location, disk.facts)),
        Place::Function(_) => None,
    });
    let slow = slow.filter(|(_, facts)| !poorwill_keepers::shuts_down_within(left_us, *facts));
    slow.inspect(|(location, facts)| tell(location, facts.normal_us))
        .count()
}
