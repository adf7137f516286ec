//! What NVMe controllers say of their shutdown. While an OS has one it cannot be asked: what is
//! known is what the search for a sleep area found at the start, and what the last cut kept.

use arrayvec::ArrayVec;
use poorwill_arch::pci::config_space;
use poorwill_keepers::MAX_DEVICES;
use poorwill_medium::nvme::ShutdownFacts;
use poorwill_medium::pci::{self, Function, Location};
use spin::Mutex;

use crate::platform::platform;

/// Where a controller is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// Behind these bridges, whatever the numbers of buses are.
    Location(Location),
    /// As the OS has numbered the buses.
    Function(Function),
}

struct Disk {
    host: usize,
    place: Place,
    facts: ShutdownFacts,
}

static DISKS: Mutex<ArrayVec<Disk, MAX_DEVICES>> = Mutex::new(ArrayVec::new_const());

/// Keeps what was found, in place of what was known of the same controller.
fn keep(host: usize, place: Place, facts: ShutdownFacts) {
    let mut disks = DISKS.lock();
    let mut known = disks.iter();
    match known.position(|disk| disk.host == host && disk.place == place) {
        Some(at) => disks[at].facts = facts,
        // Of one that has no room nothing is known.
        None if disks.is_full() => {}
        None => disks.push(Disk { host, place, facts }),
    }
}

/// Keeps what the search for a sleep area has found.
pub(crate) fn found(host: usize, location: &Location, facts: ShutdownFacts) {
    keep(host, Place::Location(location.clone()), facts);
}

/// Keeps what the record of a cut has.
pub(super) fn kept(host: usize, function: Function, facts: ShutdownFacts) {
    keep(host, Place::Function(function), facts);
}

/// What is known of a function.
pub(super) fn facts_of(host: usize, function: Function) -> Option<ShutdownFacts> {
    let described = &platform().pci[host];
    // SAFETY: the device tree describes the bridge, and no hart runs the OS.
    let config = unsafe { config_space(described) };
    let disks = DISKS.lock();
    let mut of_host = disks.iter().filter(|disk| disk.host == host);
    let disk = of_host.find(|disk| match &disk.place {
        Place::Location(location) => {
            pci::function_at(&config, &described.bridge, location) == Some(function)
        }
        Place::Function(kept) => *kept == function,
    });
    disk.map(|disk| disk.facts)
}

/// Calls `tell` with those that would refuse a cut, as no shutdown that keeps what they have
/// acknowledged fits into so many microseconds: where each is, and how long it may take.
/// Returns how many there are.
pub(super) fn too_slow(left_us: u64, tell: impl Fn(&Location, u32)) -> usize {
    let disks = DISKS.lock();
    let slow = disks.iter().filter_map(|disk| match &disk.place {
        Place::Location(location) => Some((location, disk.facts)),
        Place::Function(_) => None,
    });
    let slow = slow.filter(|(_, facts)| !poorwill_keepers::shuts_down_within(left_us, *facts));
    slow.inspect(|(location, facts)| tell(location, facts.normal_us))
        .count()
}
