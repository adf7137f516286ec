//! The shutdown times of NVMe controllers. A controller that the OS uses cannot be asked for its
//! time. So the times come from the search for a sleep area at the start, and from the record of
//! the last cut.

use arrayvec::ArrayVec;
use poorwill_arch::pci::config_space;
use poorwill_keepers::MAX_DEVICES;
use poorwill_medium::nvme::ShutdownFacts;
use poorwill_pci::{self as pci, Function, Location};
use spin::Mutex;

use crate::platform::platform;

/// The two ways to name a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// By the bridges above it: the OS may have changed the bus numbers since the search.
    Location(Location),
    /// By the OS's bus numbers.
    Function(Function),
}

#[derive(Debug)]
struct Disk {
    host: usize,
    place: Place,
    facts: ShutdownFacts,
}

/// The disks with known shutdown times.
type Disks = ArrayVec<Disk, MAX_DEVICES>;

static DISKS: Mutex<Disks> = Mutex::new(Disks::new_const());

/// Stores the facts of a controller, in place of earlier ones.
fn keep(host: usize, place: Place, facts: ShutdownFacts) {
    let mut disks = DISKS.lock();
    let mut known = disks.iter();
    match known.position(|disk| disk.host == host && disk.place == place) {
        Some(at) => disks[at].facts = facts,
        // The table is full: this disk is dropped.
        None if disks.is_full() => {}
        None => disks.push(Disk { host, place, facts }),
    }
}

/// Stores facts from the search for a sleep area.
pub(crate) fn found(host: usize, location: &Location, facts: ShutdownFacts) {
    keep(host, Place::Location(location.clone()), facts);
}

/// Stores facts from the record of a cut.
pub(super) fn kept(host: usize, function: Function, facts: ShutdownFacts) {
    keep(host, Place::Function(function), facts);
}

/// The facts of a function; `None` if they are not known.
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

/// Calls `tell` for each disk whose shutdown takes longer than `left_us`: it could not store
/// acknowledged data, and would refuse a cut. `tell` gets the disk's location and its shutdown time
/// in us. Returns the number of such disks.
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
