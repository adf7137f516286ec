//! The source of a partition, for the device tree of QEMU's `virt` with a domain on each socket.

use std::iter;
use std::ops::Range;

/// The S-level APLIC of the first socket, and the bytes of each one.
const APLICS: u64 = 0xd00_0000;
pub(super) const APLIC_BYTES: u64 = 0x8000;

/// The S-level interrupt files of the first socket, the address bits below a socket's number, and
/// the bytes of each hart's file.
const FILES: u64 = 0x2800_0000;
const SOCKET_BITS: u32 = 24;
pub(super) const FILE_BYTES: u64 = 0x1000;

/// The console's UART.
pub const UART: u64 = 0x1000_0000;

/// Configuration space, and the bytes of a bus in it.
pub const CONFIGURATION: u64 = 0x3000_0000;
pub(super) const BUS_BYTES: u64 = 1 << 20;

/// The S-level APLIC of a socket.
#[must_use]
pub const fn aplic(socket: usize) -> u64 {
    APLICS + APLIC_BYTES * socket as u64
}

/// The S-level interrupt files of a socket.
#[must_use]
pub const fn files(socket: usize) -> u64 {
    FILES + ((socket as u64) << SOCKET_BITS)
}

/// The kind of a region, and the domain's access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Registers,
    Closed,
}

/// A region of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    name: &'static str,
    base: u64,
    bytes: u64,
    kind: Kind,
}

impl Region {
    /// Memory of the domain: the fewest regions of `bytes` from `base`. Each one's length is a power
    /// of two, and its address a multiple of it.
    pub fn memory(base: u64, bytes: u64) -> impl Iterator<Item = Self> {
        let (mut base, end) = (base, base + bytes);
        iter::from_fn(move || {
            let left = (end - base).checked_ilog2()?;
            let bytes = 1 << left.min(base.trailing_zeros());
            let region = Region {
                name: "ram",
                base,
                bytes,
                kind: Kind::Memory,
            };
            base += bytes;
            Some(region)
        })
    }

    /// Registers. `bytes` is a power of two, and `base` a multiple of it.
    #[must_use]
    pub const fn registers(name: &'static str, base: u64, bytes: u64) -> Self {
        Region {
            name,
            base,
            bytes,
            kind: Kind::Registers,
        }
    }

    /// Addresses in the domain's memory that it may not access. `bytes` is a power of two, and
    /// `base` a multiple of it.
    #[must_use]
    pub const fn closed(name: &'static str, base: u64, bytes: u64) -> Self {
        Region {
            name,
            base,
            bytes,
            kind: Kind::Closed,
        }
    }

    fn source(&self, label: &str) -> String {
        let (base, order) = (cells(self.base), self.bytes.ilog2());
        let mmio = match self.kind {
            Kind::Registers => "mmio;",
            Kind::Memory | Kind::Closed => "",
        };
        format!(
            "{label}: {label} {{ compatible = \"opensbi,domain,memregion\"; base = <{base}>; \
             order = <{order}>; {mmio} }};\n"
        )
    }

    /// S-mode's permissions.
    fn permissions(&self) -> u32 {
        match self.kind {
            Kind::Memory => 0x3f,
            Kind::Registers => 0x1b,
            Kind::Closed => 0,
        }
    }
}

/// A domain on a socket. It has its APLIC and its harts' interrupt files beside `regions`.
#[derive(Clone, Debug)]
pub struct OnSocket {
    /// Its name.
    pub name: String,
    /// The socket's number.
    pub socket: usize,
    /// IDs of the socket's harts: a power of two of them.
    pub harts: Range<u32>,
    /// Its memory and its devices' registers.
    pub regions: Vec<Region>,
    /// Address of its first instruction.
    pub entry: u64,
    /// The second argument there.
    pub argument: u64,
    /// Source of the rest: its place in the order of waking, its rights and its PCI functions.
    pub properties: String,
}

impl OnSocket {
    /// The nodes of its regions, and its own.
    fn source(&self) -> String {
        let OnSocket { socket, harts, .. } = self;
        let aplic = Region::registers("aplic", aplic(*socket), APLIC_BYTES);
        let files = Region::registers("files", files(*socket), file_bytes(harts));
        let regions = self.regions.iter().chain([&aplic, &files]).enumerate();
        let regions = regions
            .map(|(place, region)| (format!("{}{socket}_{place}", region.name), region))
            .collect::<Vec<_>>();
        let nodes = regions.iter().map(|(label, region)| region.source(label));
        let uses = (regions.iter())
            .map(|(label, region)| format!("<&{label} {:#x}>", region.permissions()));
        let possible = harts.clone().map(|hart| format!("<&{{/cpus/cpu@{hart}}}>"));
        nodes.collect::<String>()
            + &format!(
                "domain{socket}: {} {{ compatible = \"opensbi,domain,instance\"; \
                 possible-harts = {}; regions = {}; boot-hart = <&{{/cpus/cpu@{}}}>; \
                 next-mode = <1>; next-addr = <{}>; next-arg1 = <{}>; {} }};\n",
                self.name,
                list(possible),
                list(uses),
                harts.start,
                cells(self.entry),
                cells(self.argument),
                self.properties,
            )
    }

    /// The S-level IMSIC node of its socket, and its APLIC's parent. OpenSBI takes one node at the
    /// machine level only, so that one stays QEMU's.
    fn controllers(&self) -> String {
        let OnSocket { socket, harts, .. } = self;
        let (files, aplic) = (files(*socket), aplic(*socket));
        format!(
            "imsic{socket}: interrupt-controller@{files:x} {{ compatible = \"riscv,imsics\"; \
             interrupt-controller; #interrupt-cells = <0>; msi-controller; riscv,num-ids = <255>; \
             riscv,hart-index-bits = <{}>; reg = <0 {files:#x} 0 {:#x}>; \
             interrupts-extended = {}; }};\n\
             interrupt-controller@{aplic:x} {{ msi-parent = <&imsic{socket}>; }};\n",
            harts.len().ilog2(),
            file_bytes(harts),
            lines(harts),
        )
    }
}

/// What QEMU's tree lacks for these domains. `properties` are those of their node.
#[must_use]
pub fn partition(domains: &[OnSocket], properties: &str) -> String {
    let owners = domains.iter().flat_map(|domain| {
        let owner = domain.socket;
        let harts = domain.harts.clone();
        harts.map(move |hart| format!("cpu@{hart} {{ opensbi-domain = <&domain{owner}>; }};\n"))
    });
    format!(
        "/ {{ soc {{ /delete-node/ interrupt-controller@28000000; }}; }};\n\
         / {{ chosen {{ opensbi-domains {{ compatible = \"opensbi,domain,config\";\n\
         {properties}{}}}; }};\n\
         cpus {{ {} }}; soc {{ {} }}; }};\n",
        domains.iter().map(OnSocket::source).collect::<String>(),
        owners.collect::<String>(),
        (domains.iter().map(OnSocket::controllers)).collect::<String>(),
    )
}

/// Bytes of the interrupt files of a socket's harts.
pub(super) fn file_bytes(harts: &Range<u32>) -> u64 {
    FILE_BYTES * harts.len() as u64
}

/// References to the interrupt controllers of harts, with the number of S-mode's external
/// interrupt.
pub(super) fn lines(harts: &Range<u32>) -> String {
    let line = |hart| format!("<&{{/cpus/cpu@{hart}/interrupt-controller}} 9>");
    list(harts.clone().map(line))
}

/// A number of 64 bits as two cells.
pub(super) fn cells(number: u64) -> String {
    format!("{:#x} {:#x}", number >> 32, number & 0xffff_ffff)
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_aligned_regions() {
        let of = |base, bytes| {
            let regions = Region::memory(base, bytes);
            regions
                .map(|region| (region.base >> 28, region.bytes >> 28))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(0x8000_0000, 0x8000_0000), [(8, 8)]);
        assert_eq!(
            of(0x9000_0000, 0x8000_0000),
            [(9, 1), (10, 2), (12, 4), (16, 1)]
        );
        assert_eq!(of(0x8000_0000, 0x7000_0000), [(8, 4), (12, 2), (14, 1)]);
    }
}
