//! The machine's device tree: sockets apart, and a domain on each.

/// The memory of each socket: 128 MiB, of which its domain has the first half.
pub(crate) const MEMORY: [u64; 2] = [0x8000_0000, 0x8800_0000];
/// A domain's program, and its orders, by their offsets in its memory.
pub(crate) const PROGRAM: u64 = 0x20_0000;
pub(crate) const ORDERS: u64 = 0x100_0000;

/// The S-level APLIC of each socket.
pub(crate) const APLICS: [u64; 2] = [0xd00_0000, 0xd00_8000];
/// The S-level IMSIC files of each socket, two pages.
pub(crate) const FILES: [u64; 2] = [0x2800_0000, 0x2900_0000];
pub(crate) const UART: u64 = 0x1000_0000;

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
const CARD_FUNCTION: &str = "poorwill,functions = <0x02001810 0 0x40000000 0 0x100000>;";

/// Regions of the bus below the bridge, for the attacker.
const BUS_REGIONS: &str = ", <&bus 0x1b>, <&window 0x1b>";

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
const CRITICAL: u64 = 0x300_1000;
const CRITICAL_FUNCTIONS: &str = "poorwill,functions =
    <0x01002010 0 0x1000 0 0x80>, <0x01002014 0 0x1080 0 0x80>, <0x01002018 0 0x1100 0 0x8>,
    <0x01002810 0 0x1108 0 0x8>;";

/// The rest of QEMU's tree. The domain on socket `attacker` has the bridge and `edu` below it, and
/// the other one the card. With `is_critical` the domain on socket 1 has the critical guest's
/// functions in place of these, and wakes first.
pub(crate) fn partition(attacker: Option<usize>, bus: &Bus, is_critical: bool) -> String {
    let regions = region("uart", UART, 12, "mmio;")
        + &region("firmware", MEMORY[0], 21, "")
        + &region("bus", 0x3010_0000, 20, "mmio;")
        + &region("window", DEVICE, 28, "mmio;")
        + &region("card", CARD, 20, "mmio;")
        + &region("can", CRITICAL, 12, "mmio;");
    let domains = [
        (", <&uart 0x1b>, <&firmware 0>", ""),
        ("", "system-suspend-allowed;"),
    ];
    let domains = domains.into_iter().enumerate();
    let domains = domains.map(|(index, (regions, rights))| {
        let (bus, functions) = match attacker {
            _ if is_critical && index == 1 => (", <&can 0x1b>", CRITICAL_FUNCTIONS.to_owned()),
            None => ("", String::new()),
            Some(attacker) if attacker == index => (
                BUS_REGIONS,
                format!("poorwill,functions = {};", bus.functions),
            ),
            Some(_) => (", <&card 0x1b>", CARD_FUNCTION.to_owned()),
        };
        let order = if is_critical { 1 - index } else { index };
        domain(
            index,
            &format!("{regions}{bus}"),
            &format!("poorwill,wake-order = <{order}>; {rights} {functions}"),
        )
    });
    let harts =
        (0..4).map(|hart| format!("cpu@{hart} {{ opensbi-domain = <&side{}>; }};", hart / 2));
    format!(
        "/ {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";\n{regions}{}}}; }};\n\
         cpus {{ {} }}; soc {{ /delete-node/ interrupt-controller@28000000; }};\n\
         }};\n/ {{ soc {{\n{}{} }}; }};\n",
        domains.collect::<String>(),
        harts.collect::<String>(),
        controllers(0),
        controllers(1),
    )
}

/// The S-level IMSIC node of a socket, and its APLIC's parent. OpenSBI takes one node at the
/// machine level only, so that one stays QEMU's.
fn controllers(socket: usize) -> String {
    let (first, second) = (2 * socket, 2 * socket + 1);
    let (files, aplic) = (FILES[socket], APLICS[socket]);
    format!(
        "os{socket}: interrupt-controller@{files:x} {{ compatible = \"riscv,imsics\"; \
         interrupt-controller; #interrupt-cells = <0>; msi-controller; \
         riscv,num-ids = <255>; riscv,hart-index-bits = <1>; reg = <0 {files:#x} 0 0x2000>; \
         interrupts-extended = <&{{/cpus/cpu@{first}/interrupt-controller}} 9>, \
         <&{{/cpus/cpu@{second}/interrupt-controller}} 9>; }};\n\
         interrupt-controller@{aplic:x} {{ msi-parent = <&os{socket}>; }};\n"
    )
}

fn region(name: &str, address: u64, order: u32, kind: &str) -> String {
    format!(
        "{name}: {name} {{ compatible = \"opensbi,domain,memregion\"; \
         base = <0 {address:#x}>; order = <{order}>; {kind} }};\n"
    )
}

/// The domain of a socket, with `regions` beside its own.
fn domain(socket: usize, regions: &str, properties: &str) -> String {
    let (memory, hart) = (MEMORY[socket], 2 * socket);
    region(&format!("ram{socket}"), memory, 26, "")
        + &region(&format!("aplic{socket}"), APLICS[socket], 15, "mmio;")
        + &region(&format!("files{socket}"), FILES[socket], 13, "mmio;")
        + &format!(
            "side{socket}: side{socket} {{ compatible = \"opensbi,domain,instance\"; \
             possible-harts = <&{{/cpus/cpu@{hart}}}>, <&{{/cpus/cpu@{}}}>; \
             regions = <&ram{socket} 0x3f>, <&aplic{socket} 0x1b>, <&files{socket} 0x1b>{regions}; \
             boot-hart = <&{{/cpus/cpu@{hart}}}>; next-mode = <1>; \
             next-addr = <0 {:#x}>; next-arg1 = <0 {:#x}>; {properties} }};\n",
            hart + 1,
            memory + PROGRAM,
            memory + ORDERS,
        )
}
