//! The machine's device tree: sockets apart, and a domain on each.

use poorwill_machine::domains::partition::{
    OnSocket, Region, aplic, files, partition as of_domains,
};

pub(crate) use poorwill_machine::domains::partition::UART;

/// The memory of each socket: 128 MiB, of which its domain has the first half.
pub(crate) const MEMORY: [u64; 2] = [0x8000_0000, 0x8800_0000];
const MEMORY_BYTES: u64 = 64 << 20;
/// A domain's program, and its orders, by their offsets in its memory.
pub(crate) const PROGRAM: u64 = 0x20_0000;
pub(crate) const ORDERS: u64 = 0x100_0000;

/// The S-level APLIC of each socket.
pub(crate) const APLICS: [u64; 2] = [aplic(0), aplic(1)];
/// The S-level IMSIC files of each socket, two pages.
pub(crate) const FILES: [u64; 2] = [files(0), files(1)];

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

/// PCI devices, and the attacker's entries of `poorwill,functions`.
#[derive(Clone, Copy, Debug)]
pub struct Bus {
    /// Arguments of `-device`.
    pub devices: &'static [&'static str],
    /// The entries.
    pub functions: &'static str,
    /// Further source of the tree.
    pub source: &'static str,
}

/// The bridge and its window, in `poorwill,functions`.
#[macro_export]
macro_rules! bridge_and {
    ($more:literal) => {
        concat!(
            "<0x00000818 1 1 0 0>, <0x02000820 0 0x50000000 0 0x10000000>, ",
            $more
        )
    };
}
/// A bridge; `edu` below it; `edu` on the first bus.
pub const BRIDGE_DEVICE: &str = "pci-bridge,id=bridge,chassis_nr=1,addr=1";
/// See [`BRIDGE_DEVICE`].
pub const EDU: &str = "edu,bus=bridge,addr=1,dma_mask=0xffffffffff";
/// See [`BRIDGE_DEVICE`].
pub const CARD_DEVICE: &str = "edu,addr=3";

/// The attacker has `edu` below the bridge.
pub const BUS: Bus = Bus {
    devices: &[BRIDGE_DEVICE, EDU, CARD_DEVICE],
    functions: bridge_and!("<0x02010810 0 0x50000000 0 0x100000>"),
    source: "",
};

/// The attacker has a disk below the bridge.
pub const DISK_BUS: Bus = Bus {
    devices: &[
        BRIDGE_DEVICE,
        "nvme,bus=bridge,addr=1,serial=hostile,drive=disk",
        CARD_DEVICE,
    ],
    functions: bridge_and!("<0x03010810 0 0x50000000 0 0x4000>"),
    source: "",
};

/// The page with the critical guest's BARs, and its functions (guest/critical/critical.dts).
const CRITICAL_REGIONS: &[Region] = &[Region::registers("can", 0x300_1000, 0x1000)];
const CRITICAL_FUNCTIONS: &str = "poorwill,functions =
    <0x01002010 0 0x1000 0 0x80>, <0x01002014 0 0x1080 0 0x80>, <0x01002018 0 0x1100 0 0x8>,
    <0x01002810 0 0x1108 0 0x8>;";

/// The rest of QEMU's tree. The domain on socket `attacker` has the bridge and `edu` below it, and
/// the other one the card. With `is_critical` the domain on socket 1 has the critical guest's
/// functions in place of these, and wakes first. Each socket has this many `harts`.
pub(crate) fn partition(
    attacker: Option<usize>,
    bus: &Bus,
    harts: u32,
    is_critical: bool,
) -> String {
    let domains = [(0, 0..harts), (1, harts..2 * harts)].map(|(socket, harts)| {
        let (regions, functions) = match attacker {
            _ if is_critical && socket == 1 => (CRITICAL_REGIONS, CRITICAL_FUNCTIONS.to_owned()),
            None => (&[][..], String::new()),
            Some(attacker) if attacker == socket => (
                BUS_REGIONS,
                format!("poorwill,functions = {};", bus.functions),
            ),
            Some(_) => (CARD_REGIONS, CARD_FUNCTION.to_owned()),
        };
        let (own_regions, right) = match socket {
            0 => (CONSOLE_REGIONS, ""),
            _ => (&[][..], "system-suspend-allowed;"),
        };
        let memory = Region::memory(MEMORY[socket], MEMORY_BYTES);
        let order = if is_critical { 1 - socket } else { socket };
        OnSocket {
            name: format!("side{socket}"),
            socket,
            harts,
            regions: memory
                .chain(own_regions.iter().chain(regions).copied())
                .collect(),
            entry: MEMORY[socket] + PROGRAM,
            argument: MEMORY[socket] + ORDERS,
            properties: format!("poorwill,wake-order = <{order}>; {right} {functions}"),
        }
    });
    of_domains(&domains)
}
