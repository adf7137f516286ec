//! The OS's memory-mapped devices, and whether their state survives a power failure.
//!
//! Each node with registers belongs to one of three groups. Poorwill keeps the device's state; or
//! the device is known to have no state that a power failure destroys; or the node is listed by
//! name, since an unknown device may hold any state.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::PhysRange;

use crate::binding::Binding;
use crate::devices::{PciHost, Uart};
use crate::flash::{Flash, flash_banks};
use crate::interrupts::Interrupts;
use crate::node::{NodeName, is_any, is_enabled, name_of, reg};

/// Maximum number of UARTs that are kept, including the console.
pub const MAX_UARTS: usize = 4;

/// Maximum number of devices that are listed by name; the others are counted.
pub const MAX_NAMED: usize = 4;

/// Maximum depth of buses. A deeper bus counts as an unknown device.
pub(crate) const MAX_DEPTH: u8 = 8;

/// The memory-mapped devices with state, for power failures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The first devices whose state is not kept.
    pub unkept: ArrayVec<NodeName, MAX_NAMED>,
    /// Number of further such devices.
    pub more_unkept: usize,
}

/// The devices of known kinds in the machine.
pub(crate) struct Known<'a> {
    pub(crate) interrupts: &'a Interrupts,
    pub(crate) pci: &'a [PciHost],
    pub(crate) rtc: Option<u64>,
    pub(crate) flash: Option<&'a Flash>,
    pub(crate) fw_cfg: &'a [PhysRange],
    pub(crate) iommus: &'a [u64],
    pub(crate) virtio: &'a [u64],
    pub(crate) uarts: &'a [Uart],
}

/// Devices that hold no state of the OS, by `compatible`.
const STATELESS: [&str; 10] = [
    // A write to it switches the machine off, resets it, or does nothing.
    "sifive,test0",
    "sifive,test1",
    // A write raises an interrupt. Its pending bit belongs to the hart's state.
    "riscv,aclint-sswi",
    // Stop writes dirty lines back, and the previous stage sets the caches up.
    "cache",
    "sifive,ccache0",
    "sifive,fu540-c000-ccache",
    "sifive,fu740-c000-ccache",
    "starfive,jh7110-ccache",
    "microchip,mpfs-ccache",
    // Only a debugger uses it.
    "riscv,debug-013",
];

/// Nodes that are not devices, by name without address.
pub(crate) const NO_DEVICES: [&str; 5] = ["cpus", "chosen", "aliases", "memory", "reserved-memory"];

impl Census {
    /// Classifies all devices of a machine that is already read.
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
            if has_registers && !Self::is_accounted_for(node, known) {
                self.name(node);
            }
            // Only a bus with `ranges` maps its devices to the addresses of the bus above it. The
            // devices below a PCI host bridge are PCI functions.
            let is_bus = node.property("ranges").is_some();
            if is_bus && Binding::of(node) != Some(Binding::PciHost) {
                match depth < MAX_DEPTH {
                    true => self.look_below(node, known, depth + 1),
                    false => self.name(node),
                }
            }
        }
    }

    /// Returns whether a device's state is kept, or it has no state. An IOMMU or a virtio device is
    /// checked when the power fails: one in use refuses the cut.
    fn is_accounted_for(node: FdtNode<'_>, known: &Known<'_>) -> bool {
        let base = reg(node, 0).map(|range| range.start);
        let interrupts = known.interrupts;
        let is_base = |address: u64| base == Some(address);
        match Binding::of(node) {
            Some(Binding::Uart | Binding::SifiveUart) => {
                Uart::read(node).is_some_and(|uart| known.uarts.contains(&uart))
            }
            Some(Binding::Plic) => interrupts.plics.iter().any(|plic| is_base(plic.base)),
            Some(Binding::Aplic) => (interrupts.machine_aplics.iter())
                .chain(&interrupts.os_aplics)
                .any(|aplic| is_base(aplic.base)),
            // Machine mode uses these, or their state is a part of the harts' state.
            Some(
                Binding::Clint
                | Binding::AclintMtimer
                | Binding::AclintMswi
                | Binding::Imsics
                | Binding::Switch(..)
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
