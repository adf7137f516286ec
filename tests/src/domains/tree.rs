//! The device tree of a machine with a hostile domain: two or three sockets, and a domain on each.

use poorwill_machine::domains::critical_functions;
use poorwill_machine::domains::partition::{
    OnSocket, Region, aplic, files, partition as of_domains,
};

pub(crate) use poorwill_machine::domains::partition::UART;

use crate::plan::{Bus, Domain};

/// The memory of each socket: 256 MiB, of which its domain has the first quarter.
pub(crate) const MEMORY: [u64; 3] = [0x8000_0000, 0x9000_0000, 0xa000_0000];
const MEMORY_BYTES: u64 = 64 << 20;
/// A domain's program, and its orders, by their offsets in its memory.
pub(crate) const PROGRAM: u64 = 0x20_0000;
pub(crate) const ORDERS: u64 = 0x100_0000;

/// The S-level APLIC of each socket.
pub(crate) const APLICS: [u64; 3] = [aplic(0), aplic(1), aplic(2)];
/// The S-level IMSIC files of each socket, two pages.
pub(crate) const FILES: [u64; 3] = [files(0), files(1), files(2)];

/// The firmware's part of the first domain's memory, and the console.
const CONSOLE_REGIONS: &[Region] = &[
    Region::closed("firmware", MEMORY[0], PROGRAM),
    Region::registers("uart", UART, 0x1000),
];

/// The attacker's PCI function `edu`, in slot 1 below a bridge in slot 1; its configuration space.
pub(crate) const DEVICE: u64 = 0x5000_0000;
pub(crate) const CONFIGURATION: u64 = 0x3010_8000;

/// The bridge's configuration space.
pub(crate) const BRIDGE: u64 = 0x3000_8000;

/// The other domain's `edu`, in slot 3 of the first bus; its configuration space.
pub(crate) const CARD: u64 = 0x4000_0000;
pub(crate) const CARD_CONFIGURATION: u64 = 0x3001_8000;
/// The source of its INTx at each socket's APLIC: PCI's wires go to the last socket alone.
pub(crate) const CARD_SOURCES: [u64; 2] = [0, 35];
const CARD_REGIONS: &[Region] = &[Region::registers("card", CARD, 1 << 20)];
const CARD_FUNCTION: &str = "poorwill,functions = <0x02001810 0 0x40000000 0 0x100000>;";

/// The bus below the bridge, for the attacker.
const BUS_REGIONS: &[Region] = &[
    Region::registers("bus", 0x3010_0000, 1 << 20),
    Region::registers("window", DEVICE, 1 << 28),
];

/// The bridge and its window, in `poorwill,functions`.
const BRIDGE_ENTRIES: &str = "<0x00000818 1 1 0 0>, <0x02000820 0 0x50000000 0 0x10000000>";

/// The page with the critical guest's BARs (guest/critical/critical.dts).
const CRITICAL_REGIONS: &[Region] = &[Region::registers("can", 0x300_1000, 0x1000)];

/// Whether the critical guest is on the last socket.
pub(crate) fn has_critical(domains: &[Domain]) -> bool {
    matches!(domains.last(), Some(Domain::Critical(_)))
}

/// The rest of QEMU's tree. The attacker's domain has the bridge and the device below it, and the
/// other one the card. The critical guest has its own functions in place of these, and wakes first.
/// `sleep` are the functions of machine mode. Each socket has this many `harts`.
pub(crate) fn partition(domains: &[Domain], bus: &Bus, sleep: &str, harts: u32) -> String {
    let is_attacker =
        |domain: &Domain| matches!(domain, Domain::Hostile(role) if role.is_attacker());
    let attacker = domains.iter().position(is_attacker);
    let is_critical = has_critical(domains);
    let last = domains.len() - 1;
    let first_harts = (0..).step_by(harts as usize);
    let domains = (0..=last).zip(first_harts).map(|(socket, first)| {
        let (regions, functions) = match attacker {
            _ if is_critical && socket == last => (CRITICAL_REGIONS, critical_functions()),
            None => (&[][..], String::new()),
            Some(attacker) if attacker == socket => (
                BUS_REGIONS,
                format!("poorwill,functions = {BRIDGE_ENTRIES}, <{}>;", bus.function),
            ),
            Some(_) => (CARD_REGIONS, CARD_FUNCTION.to_owned()),
        };
        let own_regions = match socket {
            0 => CONSOLE_REGIONS,
            _ => &[],
        };
        let right = match socket == last {
            true => "system-suspend-allowed;",
            false => "",
        };
        let memory = Region::memory(MEMORY[socket], MEMORY_BYTES);
        let order = (socket + usize::from(is_critical)) % (last + 1);
        OnSocket {
            name: format!("side{socket}"),
            socket,
            harts: first..first + harts,
            regions: memory
                .chain(own_regions.iter().chain(regions).copied())
                .collect(),
            entry: MEMORY[socket] + PROGRAM,
            argument: MEMORY[socket] + ORDERS,
            properties: format!("poorwill,wake-order = <{order}>; {right} {functions}"),
        }
    });
    of_domains(&domains.collect::<Vec<_>>(), sleep)
}
