//! The test kernel's description of its machine, from the device tree.

use arrayvec::{ArrayString, ArrayVec};
use core::ops::Range;
use dtoolkit::{
    Node, Property, ToCellInt,
    fdt::{Fdt, FdtNode},
};

use crate::mmio;

/// How many harts a machine may have (the linker script has a stack for each).
pub(crate) const MAX_HARTS: usize = 8;

/// The interrupt number by which a PLIC context is known as S-mode's.
const SUPERVISOR_EXTERNAL: u32 = 9;
/// The interrupt number by which an IMSIC or APLIC is known as machine mode's.
const MACHINE_EXTERNAL: u32 = 11;

/// The machine, copied out of the device tree, which may be overwritten then.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    /// Hart ids, in the device tree's order.
    pub(crate) harts: ArrayVec<usize, MAX_HARTS>,
    /// All harts have the D extension (and so F).
    pub(crate) has_double: bool,
    /// All harts have the V extension.
    pub(crate) has_vector: bool,
    /// RAM, firmware's part included.
    pub(crate) ram: Range<usize>,
    /// The parts of RAM that are not the OS's: the firmware's, and those of others.
    pub(crate) reserved: ArrayVec<Range<usize>, 16>,
    /// `/reserved-memory` is written as Linux wants it: with the root's cells.
    pub(crate) reserves_as_root: bool,
    /// Those of others.
    pub(crate) foreign: ArrayVec<Range<usize>, 8>,
    /// What the loader put into RAM for the kernel (`-initrd`).
    pub(crate) initrd: Option<Range<usize>>,
    /// `/chosen/bootargs`
    pub(crate) command_line: ArrayString<256>,
    /// `/chosen/poorwill,boot`
    pub(crate) boot_report: Option<ArrayString<128>>,
    /// `/chosen/poorwill,log`
    pub(crate) log: Option<ArrayString<4096>>,
    /// Where those two lie.
    pub(crate) told: ArrayVec<Range<usize>, 2>,
    /// The beginning of `/chosen/rng-seed`.
    pub(crate) seed: ArrayVec<u8, 32>,
    /// Ticks of `time` per second.
    pub(crate) timebase: u64,
    /// The registers of the console: the first 16550, or else SiFive's first UART.
    pub(crate) uart: usize,
    /// The console's chip.
    pub(crate) uart_chip: UartChip,
    /// The registers of further 16550s.
    pub(crate) other_uarts: ArrayVec<usize, 4>,
    /// The registers of SiFive's UARTs, without the console.
    pub(crate) sifive_uarts: ArrayVec<usize, 4>,
    /// The test device (`sifive,test0`), on machines that have one.
    pub(crate) test_device: Option<usize>,
    /// The real-time clock (`google,goldfish-rtc`).
    pub(crate) clock: Option<usize>,
    /// QEMU's configuration device (`qemu,fw-cfg-mmio`).
    pub(crate) fw_cfg: Option<usize>,
    /// Places for virtio devices.
    pub(crate) virtio: ArrayVec<usize, 8>,
    /// The IOMMU.
    pub(crate) iommu: Option<usize>,
    /// PCI's configuration space.
    pub(crate) ecam: Option<usize>,
    /// The console's interrupt source number.
    pub(crate) uart_interrupt: usize,
    /// The PLIC.
    pub(crate) plic: Option<usize>,
    /// The phandles of the harts' own interrupt controllers.
    hart_controllers: ArrayVec<u32, MAX_HARTS>,
    /// The PLIC's S-mode contexts, in the harts' order.
    pub(crate) plic_contexts: ArrayVec<usize, MAX_HARTS>,
    /// S-mode has IMSICs.
    pub(crate) has_imsic: bool,
    /// Where their interrupt files begin, a page for each hart.
    pub(crate) imsic: usize,
    /// S-mode's APLIC.
    pub(crate) aplic: Option<usize>,
    /// The generation ID, on machines that have one.
    pub(crate) generation_id: Option<GenerationId>,
    /// The banks of CFI flash in use.
    pub(crate) flash: ArrayVec<Range<usize>, 4>,
    /// Registers that are machine mode's: with a name, and an address in them.
    pub(crate) machine_devices: ArrayVec<(&'static str, usize), 16>,
}

/// The console's chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UartChip {
    /// A 16550.
    #[default]
    Ns16550,
    /// `sifive,uart0`.
    SiFive,
}

/// `microsoft,vmgenid`: 16 bytes that are new after every power-on.
#[derive(Clone, Debug)]
pub(crate) struct GenerationId {
    /// Where they lie.
    pub(crate) place: Range<usize>,
    /// The source that tells of new ones.
    pub(crate) source: usize,
}

impl GenerationId {
    /// The bytes, as they are now.
    pub(crate) fn read(&self) -> [u32; 4] {
        core::array::from_fn(|index| mmio::read32(self.place.start + 4 * index))
    }
}

impl Machine {
    /// Reads the device tree.
    ///
    /// # Panics
    /// If the tree does not parse, or lacks what no machine can lack.
    pub(crate) fn from_device_tree(tree: Fdt) -> Self {
        let mut machine = Self::default();
        machine.take_memory(tree);
        machine.take_harts(tree);
        machine.take_chosen(tree);
        let soc = tree.find_node("/soc").map(|soc| soc.children());
        // QEMU's configuration device is no child of /soc.
        tree.root()
            .children()
            .chain(soc.into_iter().flatten())
            .for_each(|node| machine.take_device(&node));
        machine
    }

    /// An address in the firmware's memory: where every machine starts it.
    pub(crate) fn firmware_address(&self) -> usize {
        self.ram.start
    }

    /// A device's register that S-mode may read without an effect: the test device's, or SiFive's
    /// UART's first.
    pub(crate) fn harmless_register(&self) -> usize {
        self.test_device.unwrap_or(self.uart)
    }

    fn take_memory(&mut self, tree: Fdt) {
        // A node for each socket; together they are one range.
        let root = tree.root();
        let nodes = root.children();
        let nodes = nodes.filter(|node| node.name_without_address() == "memory");
        let all = nodes.map(|node| first_range(&node).expect("memory has a reg"));
        let all = all.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        self.ram = all.expect("a memory node");
        let block = tree.memory_reservations();
        (self.foreign).extend(block.map(|entry| range(entry.address(), entry.size())));
        let reserved = root.child("reserved-memory");
        self.reserves_as_root = reserved.is_none_or(|node| {
            let mut names = ["#address-cells", "#size-cells"].into_iter();
            node.property("ranges").is_some()
                && names.all(|name| number(&node, name) == number(&root, name))
        });
        for node in tree.reserved_memory().into_iter().flatten() {
            let ranges = node.reg().ok().flatten().into_iter().flatten();
            let ranges = ranges.filter_map(|reg| {
                let start: u64 = reg.address().ok()?;
                let size: u64 = reg.size().ok()?;
                Some(range(start, size))
            });
            match node.name_without_address() {
                "poorwill" => self.reserved.extend(ranges),
                _ => self.foreign.extend(ranges),
            }
        }
        self.reserved.extend(self.foreign.iter().cloned());
    }

    fn take_harts(&mut self, tree: Fdt) {
        let cpus = tree.find_node("/cpus").expect("a cpus node");
        self.timebase = number(&cpus, "timebase-frequency")
            .expect("a timebase-frequency")
            .into();
        self.has_double = true;
        self.has_vector = true;
        for cpu in cpus
            .children()
            .filter(|node| node.name_without_address() == "cpu" && is_enabled(node))
        {
            let Some(id) = number(&cpu, "reg") else {
                continue;
            };
            self.harts.push(id as usize);
            let own = cpu.child("interrupt-controller");
            self.hart_controllers
                .extend(own.and_then(|own| number(&own, "phandle")));
            self.has_double &= has_extension(&cpu, 'd');
            self.has_vector &= has_extension(&cpu, 'v');
        }
        assert!(!self.harts.is_empty(), "no hart in the device tree");
    }

    fn take_chosen(&mut self, tree: Fdt) {
        let Some(chosen) = tree.find_node("/chosen") else {
            return;
        };
        if let Some(line) = text(&chosen, "bootargs") {
            self.command_line = ArrayString::from(line).expect("a command line of up to 256 bytes");
        }
        self.boot_report = padded_text(&chosen, "poorwill,boot");
        self.log = padded_text(&chosen, "poorwill,log");
        let told = ["poorwill,boot", "poorwill,log"].map(|name| chosen.property(name));
        self.told = told
            .iter()
            .flatten()
            .map(|property| {
                let value = property.value().as_ptr_range();
                value.start.addr()..value.end.addr()
            })
            .collect();
        if let Some(seed) = chosen.property("rng-seed") {
            self.seed = seed.value().iter().copied().take(32).collect();
        }
        let address = |name| {
            let value = chosen.property(name)?;
            // One or two cells, as the loader pleases.
            let bytes = value.value();
            Some(
                bytes
                    .iter()
                    .fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
            )
        };
        self.initrd = address("linux,initrd-start")
            .zip(address("linux,initrd-end"))
            .map(|(a, b)| a..b);
    }

    fn take_device(&mut self, node: &FdtNode) {
        let Some(range) = first_range(node) else {
            return;
        };
        let of_machine_mode = interrupts_machine_mode(node);
        let mut of_machine = |name| {
            // Beyond 16 devices the rest goes untested.
            let _ = self.machine_devices.try_push((name, range.start));
        };
        if is(node, "sifive,test0") {
            self.test_device = Some(range.start);
        } else if is(node, "ns16550a") || is(node, "sifive,uart0") {
            self.take_uart(node, range.start);
        } else if is(node, "google,goldfish-rtc") {
            self.clock = Some(range.start);
        } else if is(node, "virtio,mmio") {
            self.virtio.push(range.start);
        } else if is(node, "riscv,iommu") {
            self.iommu = Some(range.start);
        } else if is(node, "pci-host-ecam-generic") {
            self.ecam = Some(range.start);
        } else if is(node, "qemu,fw-cfg-mmio") {
            self.fw_cfg = Some(range.start);
        } else if is(node, "sifive,plic-1.0.0") || is(node, "riscv,plic0") {
            self.plic = Some(range.start);
            self.plic_contexts = supervisor_contexts(node, &self.hart_controllers);
        } else if is(node, "riscv,clint0") || is(node, "sifive,clint0") {
            of_machine("CLINT");
        } else if is(node, "riscv,aclint-mswi") {
            of_machine("ACLINT MSWI");
        } else if is(node, "riscv,aclint-mtimer") {
            of_machine("ACLINT MTIMER");
        } else if is(node, "riscv,imsics") && of_machine_mode {
            of_machine("machine mode's IMSIC");
        } else if is(node, "riscv,imsics") {
            self.has_imsic = true;
            self.imsic = range.start;
        } else if is(node, "riscv,aplic")
            && (of_machine_mode || node.property("riscv,children").is_some())
        {
            of_machine("machine mode's APLIC");
        } else if is(node, "microsoft,vmgenid") {
            self.generation_id = Some(GenerationId {
                source: first_interrupt(node).expect("a generation ID has an interrupt"),
                place: range,
            });
        } else if is(node, "cfi-flash") && is_enabled(node) {
            let banks = node.reg().ok().flatten().into_iter().flatten();
            self.flash.extend(
                banks
                    .filter_map(|reg| Some(self::range(reg.address().ok()?, reg.size().ok()?)))
                    .take(4),
            );
        } else if is(node, "riscv,aplic") {
            // Of several, that of the first socket, whose console it is.
            let first = self
                .aplic
                .map_or(range.start, |other| other.min(range.start));
            self.aplic = Some(first);
        }
    }

    fn take_uart(&mut self, node: &FdtNode, base: usize) {
        let is_sifive = is(node, "sifive,uart0");
        let has_16550 = self.uart != 0 && self.uart_chip == UartChip::Ns16550;
        if is_sifive && self.uart != 0 {
            self.sifive_uarts.push(base);
        } else if !is_sifive && has_16550 {
            self.other_uarts.push(base);
        } else {
            // A 16550 takes the place of SiFive's.
            (self.sifive_uarts).extend((self.uart != 0).then_some(self.uart));
            self.uart = base;
            self.uart_chip = match is_sifive {
                true => UartChip::SiFive,
                false => UartChip::Ns16550,
            };
            self.uart_interrupt = first_interrupt(node).unwrap_or(0);
        }
    }

    /// The value of `name=value` on the command line.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        option_of(&self.command_line, name)
    }

    /// A number on the command line.
    pub(crate) fn number(&self, name: &str, default: usize) -> usize {
        let Some(value) = self.option(name) else {
            return default;
        };
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value} on the command line is no number"))
    }

    /// The value that `time` has after this number of milliseconds.
    pub(crate) fn in_ms(&self, ms: u64) -> u64 {
        crate::arch::time() + ms * self.timebase / 1000
    }

    /// Where a hart stands in the device tree's order.
    pub(crate) fn index_of(&self, hart: usize) -> usize {
        self.harts
            .iter()
            .position(|&id| id == hart)
            .expect("a hart of the device tree")
    }
}

/// The value of `name=value` in a command line.
pub(crate) fn option_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

fn first_range(node: &FdtNode) -> Option<Range<usize>> {
    let reg = node.reg().ok()??.next()?;
    let (start, size): (u64, u64) = (reg.address().ok()?, reg.size().ok()?);
    Some(range(start, size))
}

/// Addresses from the device tree.
fn range(start: u64, size: u64) -> Range<usize> {
    let address = |value: u64| usize::try_from(value).expect("rv64's addresses have 64 bits");
    address(start)..address(start + size)
}

fn number(node: &FdtNode, name: &str) -> Option<u32> {
    node.property(name)?.value_as().ok()
}

fn text<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a str> {
    node.property(name)?.value_as().ok()
}

/// A text that is padded with zeros.
fn padded_text<const MOST: usize>(node: &FdtNode, name: &str) -> Option<ArrayString<MOST>> {
    let property = node.property(name)?;
    let bytes = property.value().split(|byte| *byte == 0).next();
    let text = core::str::from_utf8(bytes.unwrap_or_default())
        .unwrap_or_else(|_| panic!("{name} is text"));
    Some(ArrayString::from(text).unwrap_or_else(|_| panic!("{name} has up to {MOST} bytes")))
}

fn is(node: &FdtNode, compatible: &str) -> bool {
    node.compatible()
        .is_some_and(|mut all| all.any(|one| one == compatible))
}

fn is_enabled(node: &FdtNode) -> bool {
    text(node, "status").is_none_or(|status| status == "okay")
}

/// Whether the hart has the extension of one letter.
fn has_extension(cpu: &FdtNode, letter: char) -> bool {
    if let Some(list) = cpu.property("riscv,isa-extensions") {
        return list
            .value()
            .split(|&byte| byte == 0)
            .any(|one| one == [letter as u8]);
    }
    // The single letters stand before the first underscore: rv64imafdch_…
    let isa = text(cpu, "riscv,isa").unwrap_or("");
    isa.split('_')
        .next()
        .is_some_and(|letters| letters.trim_start_matches("rv64").contains(letter))
}

/// The source of a node's first interrupt, in one cell (PLIC) or two (APLIC).
fn first_interrupt(node: &FdtNode) -> Option<usize> {
    let bytes = *node.property("interrupts")?.value().first_chunk()?;
    Some(u32::from_be_bytes(bytes) as usize)
}

/// The contexts of S-mode on the harts with these controllers.
fn supervisor_contexts(plic: &FdtNode, harts: &[u32]) -> ArrayVec<usize, MAX_HARTS> {
    let Some(list) = plic.property("interrupts-extended") else {
        return ArrayVec::new();
    };
    let Ok(pairs) = list.as_prop_encoded_array([1, 1]) else {
        return ArrayVec::new();
    };
    let of_supervisor = pairs.enumerate().filter(|(_, [of, number])| {
        let is_of_hart = of.to_int().is_ok_and(|of: u32| harts.contains(&of));
        is_of_hart && number.to_int() == Ok(SUPERVISOR_EXTERNAL)
    });
    of_supervisor
        .map(|(context, _)| context)
        .take(MAX_HARTS)
        .collect()
}

fn interrupts_machine_mode(node: &FdtNode) -> bool {
    let Some(list) = node.property("interrupts-extended") else {
        return false;
    };
    let Ok(mut pairs) = list.as_prop_encoded_array([1, 1]) else {
        return false;
    };
    pairs.any(|[_, number]| number.to_int::<u32>() == Ok(MACHINE_EXTERNAL))
}
