//! Sources of the device trees: the machine's, each Linux's, the critical guest's.

use super::{Domains, INITRD, PROGRAM, TREE, functions};

/// Addresses of QEMU's `virt`.
const APLICS: u64 = 0xd00_0000;
const APLIC_BYTES: u64 = 0x8000;
const FILES: u64 = 0x2800_0000;
const GROUP_BITS: u32 = 24;
const FILE_BYTES: u64 = 0x1000;
const UART: u64 = 0x1000_0000;
const CONFIGURATION: u64 = 0x3000_0000;
const BUS_BYTES: u64 = 1 << 20;

/// Permissions of S-mode in regions of memory and of registers.
const MEMORY: u32 = 0x3f;
const REGISTERS: u32 = 0x1b;

fn aplic(socket: usize) -> u64 {
    APLICS + APLIC_BYTES * socket as u64
}

fn files(socket: usize) -> u64 {
    FILES + ((socket as u64) << GROUP_BITS)
}

/// References to the interrupt controllers of a socket's harts, with the number of S-mode's
/// external interrupt.
fn lines(domains: &Domains, socket: usize) -> String {
    let harts = domains.harts_of(socket);
    let lines = harts.map(|hart| format!("<&{{/cpus/cpu@{hart}/interrupt-controller}} 9>"));
    lines.collect::<Vec<_>>().join(", ")
}

/// The rest of QEMU's tree for the firmware.
pub(super) fn of_machine(domains: &Domains) -> String {
    let mut config = String::new();
    let mut harts = String::new();
    let mut controllers = String::new();
    for socket in 0..domains.domains.len() {
        let (regions, uses) = regions(domains, socket);
        config += &regions;
        config += &instance(domains, socket, &uses);
        for hart in domains.harts_of(socket) {
            harts += &format!("cpu@{hart} {{ opensbi-domain = <&domain{socket}>; }};\n");
        }
        let (files, bits) = (files(socket), domains.harts.ilog2());
        controllers += &format!(
            "imsic{socket}: interrupt-controller@{files:x} {{ compatible = \"riscv,imsics\"; \
             interrupt-controller; #interrupt-cells = <0>; msi-controller; riscv,num-ids = <255>; \
             riscv,hart-index-bits = <{bits}>; reg = <0 {files:#x} 0 {:#x}>; \
             interrupts-extended = {}; }};\n\
             interrupt-controller@{:x} {{ msi-parent = <&imsic{socket}>; }};\n",
            FILE_BYTES * u64::from(domains.harts),
            lines(domains, socket),
            aplic(socket),
        );
    }
    format!(
        "/ {{ soc {{ /delete-node/ interrupt-controller@28000000; }}; }};\n\
         / {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";\n{config}}}; }};\n\
         cpus {{ {harts} }}; soc {{ {controllers} }}; }};\n"
    )
}

/// The regions of a domain, and its references to them.
fn regions(domains: &Domains, socket: usize) -> (String, String) {
    let domain = &domains.domains[socket];
    let mut list = vec![
        ("ram", domains.memory_of(socket), domains.memory.0, MEMORY),
        ("aplic", aplic(socket), APLIC_BYTES, REGISTERS),
        (
            "files",
            files(socket),
            FILE_BYTES * u64::from(domains.harts),
            REGISTERS,
        ),
    ];
    if socket == 0 {
        list.push(("firmware", domains.memory_of(0), PROGRAM, 0));
        list.push(("uart", UART, 0x1000, REGISTERS));
    }
    if domain.critical.is_some() {
        list.push(("ports", functions::CRITICAL_PORTS, 0x1000, REGISTERS));
    } else if !functions::property(socket, domain).is_empty() {
        let bus = CONFIGURATION + BUS_BYTES * u64::from(functions::bus(socket));
        list.push(("bus", bus, BUS_BYTES, REGISTERS));
        list.push((
            "window",
            functions::window(socket),
            functions::WINDOW_BYTES,
            REGISTERS,
        ));
    }
    let nodes = list.iter().map(|(name, base, bytes, permissions)| {
        let kind = if *permissions == REGISTERS {
            "mmio;"
        } else {
            ""
        };
        format!(
            "{name}{socket}: {name}{socket} {{ compatible = \"opensbi,domain,memregion\"; \
             base = <{:#x} {:#x}>; order = <{}>; {kind} }};\n",
            base >> 32,
            base & 0xffff_ffff,
            bytes.ilog2(),
        )
    });
    let uses = list
        .iter()
        .map(|(name, .., permissions)| format!("<&{name}{socket} {permissions:#x}>"));
    (nodes.collect(), uses.collect::<Vec<_>>().join(", "))
}

fn instance(domains: &Domains, socket: usize, regions: &str) -> String {
    let domain = &domains.domains[socket];
    let harts = domains.harts_of(socket);
    let possible = harts
        .map(|hart| format!("<&{{/cpus/cpu@{hart}}}>"))
        .collect::<Vec<_>>();
    let (memory, boot) = (domains.memory_of(socket), domains.first_hart(socket));
    let right = |is_given: bool, name: &str| {
        if is_given {
            format!("{name};")
        } else {
            String::new()
        }
    };
    format!(
        "domain{socket}: {} {{ compatible = \"opensbi,domain,instance\"; \
         possible-harts = {}; regions = {regions}; boot-hart = <&{{/cpus/cpu@{boot}}}>; \
         next-mode = <1>; next-addr = <{:#x} {:#x}>; next-arg1 = <{:#x} {:#x}>; \
         poorwill,wake-order = <{}>; {} {} {} }};\n",
        domain.name,
        possible.join(", "),
        (memory + PROGRAM) >> 32,
        (memory + PROGRAM) & 0xffff_ffff,
        (memory + TREE) >> 32,
        (memory + TREE) & 0xffff_ffff,
        domain.wake_order,
        right(domain.may_sleep, "system-suspend-allowed"),
        right(domain.may_reset, "system-reset-allowed"),
        functions::property(socket, domain),
    )
}

/// What a Linux's tree lacks of QEMU's `plain` one, and has of its own.
pub(super) fn of_linux(domains: &Domains, socket: usize, plain: &str, initrd: u64) -> String {
    let domain = &domains.domains[socket];
    let memory = domains.memory_of(socket);
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
        let start = memory + INITRD;
        let end = start + initrd;
        source += &format!(
            "/ {{ chosen {{ linux,initrd-start = <{:#x} {:#x}>; linux,initrd-end = <{:#x} {:#x}>; }}; }};\n",
            start >> 32,
            start & 0xffff_ffff,
            end >> 32,
            end & 0xffff_ffff,
        );
    }
    source += &format!(
        "&{{/soc/interrupt-controller@28000000}} {{ reg = <0 {:#x} 0 {:#x}>; interrupts-extended = {}; \
         /delete-property/ riscv,group-index-bits; /delete-property/ riscv,group-index-shift; }};\n",
        files(socket),
        FILE_BYTES * u64::from(domains.harts),
        lines(domains, socket),
    );
    if socket == 0 {
        let (start, bytes) = (memory + PROGRAM, domains.memory.0 - PROGRAM);
        source += &format!(
            "&{{/memory@{memory:x}}} {{ reg = <{:#x} {:#x} 0 {bytes:#x}>; }};\n",
            start >> 32,
            start & 0xffff_ffff,
        );
    }
    source + &host_bridge(domains, socket)
}

/// A Linux's bus as its host bridge, or no host bridge. Linux keeps the addresses at which the
/// firmware has placed the functions.
fn host_bridge(domains: &Domains, socket: usize) -> String {
    if functions::property(socket, &domains.domains[socket]).is_empty() {
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
        paths.push(format!("/memory@{:x}", domains.memory_of(other)));
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
    let (hart, memory, bytes) = (
        domains.first_hart(socket),
        domains.memory_of(socket),
        domains.memory.0,
    );
    let wake = domain.wake_after_ms.map_or(String::new(), |ms| {
        format!("poorwill,wake-after-ms = <{ms}>;")
    });
    format!(
        "/ {{ #address-cells = <2>; #size-cells = <2>; compatible = \"riscv-virtio\";\n\
         chosen {{ {wake} poorwill,load-us = <{}>; }};\n\
         memory@{memory:x} {{ device_type = \"memory\"; reg = <{:#x} {:#x} {:#x} {:#x}>; }};\n\
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
        memory >> 32,
        memory & 0xffff_ffff,
        bytes >> 32,
        bytes & 0xffff_ffff,
        functions::critical_nodes(),
        files = files(socket),
        aplic = aplic(socket),
    )
}
