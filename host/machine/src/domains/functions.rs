//! PCI functions of domains: QEMU's arguments, and the property `poorwill,functions`.

use std::fmt::Write;
use std::path::Path;

use super::description::DomainOnQemu;
use super::entries::{Bar, NVME, entry, property};
use crate::quoted::quoted;

/// The most functions of a Linux: their slots share a wired source.
pub(super) const MAX: usize = 7;

/// The window of each Linux's bridge: 256 MiB of memory on the bus, which the CPU reaches at the
/// same addresses.
const WINDOWS: u64 = 0x5000_0000;
pub(super) const WINDOW_BYTES: u64 = 0x1000_0000;

/// Bytes of the window for each function.
const FUNCTION_BYTES: u64 = 1 << 20;

/// The host bridge's window of I/O ports, and the critical guest's page there.
const PORTS: u64 = 0x300_0000;
const PAGE_OF_PORTS: u64 = 0x1000;
/// Registers that the CPU reaches of the critical guest's functions.
pub(super) const CRITICAL_PORTS: u64 = PORTS + PAGE_OF_PORTS;

/// Slots of the critical guest's functions on the first bus.
const CAN_SLOT: u32 = 4;
const SERIAL_SLOT: u32 = 5;

const VIRTIO: &[Bar] = &[(0x20, 3, 0x4000, true), (0x14, 2, 0x1000, false)];

/// The bus of a Linux's bridge. The bridge is in the slot with the same number.
pub(super) fn bus(socket: usize) -> u32 {
    number(socket) + 1
}

/// First address of the window of a Linux's bridge.
pub(super) fn window(socket: usize) -> u64 {
    WINDOWS + WINDOW_BYTES * socket as u64
}

/// Slots below a bridge. The wired interrupts of all these slots raise one source.
fn slot(index: usize) -> u32 {
    1 + 4 * number(index)
}

/// Bus and slot of a Linux's function.
pub(super) fn place(socket: usize, index: usize) -> (u32, u32) {
    (bus(socket), slot(index))
}

/// Registers of Linux's functions, by index.
fn linux(domain: &DomainOnQemu) -> Vec<&'static [Bar]> {
    let network = domain.network.iter().map(|_| VIRTIO);
    domain.disks.iter().map(|_| NVME).chain(network).collect()
}

/// QEMU's arguments for the critical guest's CAN card and serial line. `trigger` is the socket that
/// leads to the line; without one the line is idle.
#[must_use]
pub fn critical_devices(trigger: Option<&Path>) -> [(&'static str, String); 4] {
    let line = trigger.map_or("null,id=trigger".into(), |path| {
        let path = quoted(path);
        format!("socket,id=trigger,path={path},server=on,wait=off")
    });
    let serial = format!("pci-serial,chardev=trigger,addr={SERIAL_SLOT}");
    [
        ("-object", "can-bus,id=can".into()),
        ("-device", format!("kvaser_pci,canbus=can,addr={CAN_SLOT}")),
        ("-chardev", line),
        ("-device", serial),
    ]
}

/// QEMU's arguments for a domain's functions.
pub(super) fn arguments(socket: usize, domain: &DomainOnQemu) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    if domain.critical.is_some() {
        return critical_devices(domain.trigger.as_deref()).into();
    }
    if linux(domain).is_empty() {
        return list;
    }
    let bus = bus(socket);
    list.push((
        "-device",
        format!("pci-bridge,id=bridge{bus},chassis_nr={bus},addr={bus}"),
    ));
    let mut slots = (0..).map(slot);
    let mut place = || {
        format!(
            "bus=bridge{bus},addr={:#x}",
            slots.next().unwrap_or_default()
        )
    };
    for (index, disk) in domain.disks.iter().enumerate() {
        let (id, file) = (format!("disk{socket}-{index}"), quoted(disk));
        list.push(("-drive", format!("if=none,id={id},format=raw,file={file}")));
        list.push((
            "-device",
            format!("nvme,serial={id},drive={id},{}", place()),
        ));
    }
    if let Some(options) = &domain.network {
        let id = format!("network{socket}");
        let comma = if options.is_empty() { "" } else { "," };
        list.push(("-netdev", format!("user,id={id}{comma}{options}")));
        let fenced = "iommu_platform=on,disable-legacy=on,romfile=";
        list.push((
            "-device",
            format!("virtio-net-pci,netdev={id},{fenced},{}", place()),
        ));
    }
    list
}

/// The property `poorwill,functions` of the critical guest's domain.
#[must_use]
pub fn critical_functions() -> String {
    let entries = [
        (CAN_SLOT, 0x10, 0, 0x80),
        (CAN_SLOT, 0x14, 0x80, 0x80),
        (CAN_SLOT, 0x18, 0x100, 8),
        (SERIAL_SLOT, 0x10, 0x108, 8),
    ];
    let entries = entries.map(|(slot, register, offset, length)| {
        entry(
            slot << 11,
            &(register, 1, length, false),
            PAGE_OF_PORTS + offset,
        )
    });
    property(&entries)
}

/// The property of a domain.
pub(super) fn of_domain(socket: usize, domain: &DomainOnQemu) -> String {
    let mut entries = Vec::new();
    if domain.critical.is_some() {
        return critical_functions();
    }
    if !linux(domain).is_empty() {
        let (bus, window) = (bus(socket), window(socket));
        let bridge = bus << 11;
        entries.push(format!("<{:#x} {bus} {bus} 0 0>", bridge | 0x18));
        entries.push(entry(bridge, &(0x20, 2, WINDOW_BYTES, false), window));
        for (index, bars) in linux(domain).into_iter().enumerate() {
            let mut address = window + FUNCTION_BYTES * index as u64;
            for bar in bars {
                entries.push(entry(bus << 16 | slot(index) << 11, bar, address));
                let (.., length, _) = bar;
                address += length;
            }
        }
    }
    property(&entries)
}

/// The nodes of the critical guest's functions, in its own tree.
pub(super) fn critical_nodes() -> String {
    let mut nodes = String::new();
    let mut add = |name: &str, compatible: &str, slot: u32, bars: &[(u64, u64)]| {
        let address = |offset| CRITICAL_PORTS + offset;
        let bars = bars
            .iter()
            .map(|(offset, length)| format!("<0 {:#x} 0 {length:#x}>", address(offset)));
        let bars = bars.collect::<Vec<_>>().join(", ");
        let source = 32 + slot % 4;
        // A write to a string does not fail.
        let _written = writeln!(
            nodes,
            "{name} {{ compatible = \"{compatible}\"; reg = {bars}; \
             interrupt-parent = <&aplic>; interrupts = <{source} 4>; }};"
        );
    };
    add(
        "can@3001000",
        "pci10e8,8406",
        CAN_SLOT,
        &[(0, 0x80), (0x80, 0x80), (0x100, 8)],
    );
    add("serial@3001108", "pci1b36,2", SERIAL_SLOT, &[(0x108, 8)]);
    nodes
}

/// A count of sockets or functions as QEMU's and the tree's 32 bits.
fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a machine has few of them")
}
