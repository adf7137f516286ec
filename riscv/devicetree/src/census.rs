//! The devices on the bus of memory that the OS has, and what becomes of the state of each
//! in a power failure.
//!
//! Each node with registers is kept, or is known to have no state that a power failure
//! takes, or is named: what no rule here knows may hold anything.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::PhysRange;

use crate::binding::Binding;
use crate::devices::{PciHost, Uart};
use crate::flash::{Flash, flash_banks};
use crate::interrupts::Interrupts;
use crate::node::{NodeName, is_any, is_enabled, name_of, reg};

/// UARTs that are kept at most, the console among them.
pub const MAX_UARTS: usize = 4;

/// Devices that are named at most; the others are counted.
pub const MAX_NAMED: usize = 4;

/// How deep buses are followed. What is deeper counts as one that nothing knows.
const MAX_DEPTH: u8 = 8;

/// What a power failure takes from the devices on the bus of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Every UART of a known kind.
    pub uarts: ArrayVec<Uart, MAX_UARTS>,
    /// Devices whose state nothing keeps, the first ones.
    pub unkept: ArrayVec<NodeName, MAX_NAMED>,
    /// How many more there are.
    pub more_unkept: usize,
}

/// What is known of the machine, and so looked after.
pub(crate) struct Known<'a> {
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) pci: &'a [PciHost],
    pub(crate) rtc: Option<u64>,
    pub(crate) flash: Option<&'a Flash>,
    pub(crate) fw_cfg: &'a [PhysRange],
    pub(crate) iommus: &'a [u64],
    pub(crate) virtio: &'a [u64],
}

/// Devices that hold nothing of the OS's, by what they are compatible with.
const STATELESS: [&str; 10] = [
    // A store to it ends the machine, or does nothing.
    "sifive,test0",
    "sifive,test1",
    // A store raises an interrupt, which is the hart's from then on.
    "riscv,aclint-sswi",
    // What caches hold is written back, and the previous stage sets them up.
    "cache",
    "sifive,ccache0",
    "sifive,fu540-c000-ccache",
    "sifive,fu740-c000-ccache",
    "starfive,jh7110-ccache",
    "microchip,mpfs-ccache",
    // A debugger's.
    "riscv,debug-013",
];

/// Nodes that are no devices, by their names without an address.
const NO_DEVICES: [&str; 5] = ["cpus", "chosen", "aliases", "memory", "reserved-memory"];

impl Census {
    /// Looks at all devices of a machine that is read already.
    pub(crate) fn take(root: FdtNode<'_>, known: &Known<'_>) -> Self {
        let mut census = Census::default();
        census.look_below(root, known, 0);
        census
    }

    fn look_below(&mut self, bus: FdtNode<'_>, known: &Known<'_>, depth: u8) {
        for node in bus.children().filter(|node| is_enabled(*node)) {
            if NO_DEVICES.contains(&node.name_without_address()) {
                continue;
            }
            let has_registers = node.property("reg").is_some();
            if has_registers && !self.is_accounted_for(node, known) {
                self.name(node);
            }
            // Only what a bus translates lies on the bus above it. What is behind a PCI host
            // bridge is on no bus of memory.
            let is_bus = node.property("ranges").is_some();
            if is_bus && Binding::of(node) != Some(Binding::PciHost) {
                match depth < MAX_DEPTH {
                    true => self.look_below(node, known, depth + 1),
                    false => self.name(node),
                }
            }
        }
    }

    /// Whether a device's state is kept, or there is none. An IOMMU or a virtio device is
    /// looked at when the power fails: in use it refuses the cut.
    fn is_accounted_for(&mut self, node: FdtNode<'_>, known: &Known<'_>) -> bool {
        let base = reg(node, 0).map(|range| range.start);
        let interrupts = known.interrupts;
        let is_base = |address: u64| base == Some(address);
        match Binding::of(node) {
            Some(Binding::Uart) => {
                Uart::read(node).is_some_and(|uart| self.uarts.try_push(uart).is_ok())
            }
            Some(Binding::Plic) => interrupts.plics.iter().any(|plic| is_base(plic.base)),
            Some(Binding::Aplic) => (interrupts.machine_aplics.iter())
                .chain(&interrupts.os_aplics)
                .any(|aplic| is_base(aplic.base)),
            // Machine mode's, or the harts' own.
            Some(
                Binding::Clint
                | Binding::AclintMtimer
                | Binding::AclintMswi
                | Binding::Imsics
                | Binding::PowerOff
                | Binding::Reset
                | Binding::PowerFail,
            ) => true,
            Some(Binding::PciHost) => known.pci.iter().any(|host| is_base(host.ecam.start)),
            Some(Binding::Rtc) => known.rtc == base,
            Some(Binding::Flash) => {
                (known.flash).is_some_and(|flash| flash_banks(node).eq(flash.banks.iter().copied()))
            }
            Some(Binding::FwCfg) => known.fw_cfg.iter().any(|range| is_base(range.start)),
            Some(Binding::Iommu) => known.iommus.iter().any(|iommu| is_base(*iommu)),
            Some(Binding::VirtioMmio) => known.virtio.iter().any(|virtio| is_base(*virtio)),
            None => is_any(node, &STATELESS),
        }
    }

    fn name(&mut self, node: FdtNode<'_>) {
        if self.unkept.try_push(name_of(node)).is_err() {
            self.more_unkept += 1;
        }
    }
}
