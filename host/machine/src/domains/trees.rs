//! Sources of the device trees: the machine's, each Linux's, the critical guest's.

use std::iter;

use super::description::{Domains, PROGRAM};
use super::functions;
use super::partition::{
    APLIC_BYTES, BUS_BYTES, CONFIGURATION, FILE_BYTES, OnSocket, Region, UART, aplic, cells,
    file_bytes, files, lines, partition,
};
use super::sleep::Sleep;

/// The rest of QEMU's tree for the firmware.
pub(super) fn of_machine(domains: &Domains) -> String {
    let sockets = 0..domains.domains.len();
    let on_sockets = sockets.map(|socket| on_socket(domains, socket));
    let sleep = domains.sleep.as_ref();
    let sleep = sleep.map(Sleep::functions).unwrap_or_default();
    partition(&on_sockets.collect::<Vec<_>>(), &sleep)
}

fn on_socket(domains: &Domains, socket: usize) -> OnSocket {
    let domain = &domains.domains[socket];
    let memory = domains.memory_of(socket);
    let rights = [
        (domain.may_sleep, "system-suspend-allowed;"),
        (domain.may_reset, "system-reset-allowed;"),
    ];
    let rights = rights.into_iter().filter(|(is_given, _)| *is_given);
    OnSocket {
        name: domain.name.clone(),
        socket,
        harts: domains.harts_of(socket),
        regions: regions(domains, socket),
        entry: memory.start + PROGRAM,
        argument: memory.start + domains.tree_of(socket),
        properties: iter::once(format!("poorwill,wake-order = <{}>;", domain.wake_order))
            .chain(rights.map(|(_, right)| right.to_owned()))
            .chain([functions::of_domain(socket, domain)])
            .collect(),
    }
}

/// The memory of a domain, and its devices' registers.
fn regions(domains: &Domains, socket: usize) -> Vec<Region> {
    let domain = &domains.domains[socket];
    let memory = domains.memory_of(socket);
    let mut list: Vec<_> = Region::memory(memory.start, memory.end - memory.start).collect();
    if socket == 0 {
        list.push(Region::closed("firmware", memory.start, PROGRAM));
        list.push(Region::registers("uart", UART, 0x1000));
    }
    if domain.critical.is_some() {
        list.push(Region::registers(
            "ports",
            functions::CRITICAL_PORTS,
            0x1000,
        ));
    } else if !functions::of_domain(socket, domain).is_empty() {
        let bus = CONFIGURATION + BUS_BYTES * u64::from(functions::bus(socket));
        list.push(Region::registers("bus", bus, BUS_BYTES));
        list.push(Region::registers(
            "window",
            functions::window(socket),
            functions::WINDOW_BYTES,
        ));
    }
    list
}

/// What a Linux's tree lacks of QEMU's `plain` one, and has of its own.
pub(super) fn of_linux(domains: &Domains, socket: usize, plain: &str, initrd: u64) -> String {
    let domain = &domains.domains[socket];
    let (memory, harts) = (domains.memory_of(socket), domains.harts_of(socket));
    let mut source: String = foreign_nodes(domains, socket)
        .into_iter()
        // QEMU's versions have different nodes.
        .filter(|path| {
            path.rsplit('/')
                .next()
                .is_some_and(|name| plain.contains(&format!("{name} {{")))
        })
        .map(|path| format!("/delete-node/ &{{{path}}};\n"))
        .collect();
    source += &format!(
        "/ {{ chosen {{ bootargs = \"{}\"; }}; }};\n",
        domain.append.replace('\\', "\\\\").replace('"', "\\\"")
    );
    if initrd > 0 {
        let start = memory.start + domains.initrd_of(socket);
        let (start, end) = (cells(start), cells(start + initrd));
        source += &format!(
            "/ {{ chosen {{ linux,initrd-start = <{start}>; linux,initrd-end = <{end}>; }}; }};\n",
        );
    }
    source += &format!(
        "&{{/soc/interrupt-controller@28000000}} {{ reg = <0 {:#x} 0 {:#x}>; interrupts-extended = {}; \
         /delete-property/ riscv,group-index-bits; /delete-property/ riscv,group-index-shift; }};\n",
        files(socket),
        file_bytes(&harts),
        lines(&harts),
    );
    if socket == 0 || domain.uses.is_some() {
        let firmware = if socket == 0 { PROGRAM } else { 0 };
        let start = memory.start + firmware;
        source += &format!(
            "&{{/memory@{:x}}} {{ reg = <{} {}>; }};\n",
            memory.start,
            cells(start),
            cells(memory.end - start),
        );
    }
    source + &host_bridge(domains, socket)
}

/// A Linux's bus as its host bridge, or no host bridge. Linux keeps the addresses at which the
/// firmware has placed the functions.
fn host_bridge(domains: &Domains, socket: usize) -> String {
    if functions::of_domain(socket, &domains.domains[socket]).is_empty() {
        return "/delete-node/ &{/soc/pci@30000000};\n".into();
    }
    let (bus, window) = (functions::bus(socket), functions::window(socket));
    let configuration = CONFIGURATION + BUS_BYTES * u64::from(bus);
    let bytes = functions::WINDOW_BYTES;
    format!(
        "&{{/soc/pci@30000000}} {{ /delete-property/ interrupt-map; \
         /delete-property/ interrupt-map-mask; /delete-property/ #interrupt-cells; \
         /delete-property/ iommu-map; reg = <0 {configuration:#x} 0 {BUS_BYTES:#x}>; \
         bus-range = <{bus} {bus}>; \
         ranges = <0x2000000 0 {window:#x} 0 {window:#x} 0 {bytes:#x}>; }};\n\
         / {{ chosen {{ linux,pci-probe-only = <1>; }}; }};\n"
    )
}

/// Nodes that are not a Linux's.
fn foreign_nodes(domains: &Domains, socket: usize) -> Vec<String> {
    let mut paths: Vec<String> = [
        "/flash@20000000",
        "/fw-cfg@10100000",
        "/soc/test@100000",
        "/poweroff",
        "/reboot",
        "/platform-bus@4000000",
        "/soc/iommu@3010000",
        "/soc/interrupt-controller@24000000",
    ]
    .map(Into::into)
    .into();
    paths.extend((1..=8).map(|index| format!("/soc/virtio_mmio@1000{index}000")));
    if socket != 0 {
        // The owner of the UART reads the clock, too.
        paths.extend(["/soc/serial@10000000", "/soc/rtc@101000"].map(Into::into));
    }
    for other in 0..domains.domains.len() {
        paths.push(format!("/soc/clint@{:x}", 0x200_0000 + 0x1_0000 * other));
        paths.push(format!(
            "/soc/interrupt-controller@{:x}",
            0xc00_0000 + 0x8000 * other
        ));
        if other == socket {
            continue;
        }
        paths.push(format!("/soc/interrupt-controller@{:x}", aplic(other)));
        paths.push(format!("/memory@{:x}", domains.memory_of(other).start));
        paths.push(format!("/cpus/cpu-map/cluster{other}"));
        paths.extend(
            domains
                .harts_of(other)
                .map(|hart| format!("/cpus/cpu@{hart}")),
        );
    }
    paths
}

/// The critical guest's tree. guest/critical/critical.dts describes it.
pub(super) fn of_critical(domains: &Domains, socket: usize) -> String {
    let domain = &domains.domains[socket];
    let hart = domains.harts_of(socket).start;
    let memory = domains.memory_of(socket);
    let wake = domain.wake_after_ms.map_or(String::new(), |ms| {
        format!("poorwill,wake-after-ms = <{ms}>;")
    });
    format!(
        "/ {{ #address-cells = <2>; #size-cells = <2>; compatible = \"riscv-virtio\";\n\
         chosen {{ {wake} poorwill,load-us = <{}>; }};\n\
         memory@{:x} {{ device_type = \"memory\"; reg = <{} {}>; }};\n\
         cpus {{ #address-cells = <1>; #size-cells = <0>; timebase-frequency = <10000000>;\n\
         cpu@{hart} {{ device_type = \"cpu\"; compatible = \"riscv\"; reg = <{hart}>; \
         riscv,isa-base = \"rv64i\"; \
         riscv,isa-extensions = \"i\", \"m\", \"a\", \"c\", \"zicsr\", \"sstc\", \"ssaia\";\n\
         hart: interrupt-controller {{ compatible = \"riscv,cpu-intc\"; #interrupt-cells = <1>; \
         interrupt-controller; }}; }}; }};\n\
         soc {{ #address-cells = <2>; #size-cells = <2>; compatible = \"simple-bus\"; ranges;\n\
         imsic: interrupt-controller@{files:x} {{ compatible = \"riscv,imsics\"; \
         reg = <0 {files:#x} 0 {FILE_BYTES:#x}>; interrupts-extended = <&hart 9>; \
         interrupt-controller; #interrupt-cells = <0>; msi-controller; riscv,num-ids = <255>; }};\n\
         aplic: interrupt-controller@{aplic:x} {{ compatible = \"riscv,aplic\"; \
         reg = <0 {aplic:#x} 0 {APLIC_BYTES:#x}>; msi-parent = <&imsic>; interrupt-controller; \
         #interrupt-cells = <2>; riscv,num-sources = <96>; }};\n{} }}; }};\n",
        domain.load_us,
        memory.start,
        cells(memory.start),
        cells(memory.end - memory.start),
        functions::critical_nodes(),
        files = files(socket),
        aplic = aplic(socket),
    )
}
