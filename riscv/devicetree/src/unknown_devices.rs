//! Devices that may harm a domain that does not have them: they reach memory by themselves, or
//! interrupt, reset or stop its harts.

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use poorwill_memory::PhysRange;

use crate::binding::Binding;
use crate::census::{MAX_DEPTH, NO_DEVICES};
use crate::devices::all_windows;
use crate::node::{NodeName, is_any, is_enabled, name_of, regs};

/// Devices without DMA that affect only their own lines, beside UARTs, by `compatible`.
const HARMLESS: [&str; 1] = ["sifive,pwm0"];

/// Calls `tell` for each range of registers of a device that is not known to be harmless. Enabled
/// controllers of interrupts, PCI host bridges and `virtio,mmio` devices are left out: the check of
/// a partition judges them by rules of their own. A `status` of "disabled" says
/// only that no driver uses a device: its registers still work. A bus below too many others counts
/// as one device with all addresses.
pub fn unknown_devices(tree: &Fdt<'_>, tell: &mut dyn FnMut(NodeName, PhysRange)) {
    let top = Bus {
        depth: 0,
        is_enabled: true,
    };
    look_below(tree.root(), tell, top);
}

/// A bus whose devices are judged.
#[derive(Clone, Copy)]
struct Bus {
    /// The number of buses above it.
    depth: u8,
    /// It is enabled, and so are all buses above it.
    is_enabled: bool,
}

fn look_below(above: FdtNode<'_>, tell: &mut dyn FnMut(NodeName, PhysRange), bus: Bus) {
    for node in above.children() {
        if NO_DEVICES.contains(&node.name_without_address()) {
            continue;
        }
        let is_enabled = bus.is_enabled && is_enabled(node);
        let binding = Binding::of(node);
        if !is_harmless(node, binding, is_enabled) {
            regs(node).for_each(|range| tell(name_of(node), range));
            if binding == Some(Binding::PciHost) {
                // Its functions decode addresses there.
                all_windows(node).for_each(|range| tell(name_of(node), range));
            }
        }
        // A device's own bus, such as I2C, has other addresses.
        if binding.is_none() && node.property("ranges").is_some() {
            let below = Bus {
                depth: bus.depth + 1,
                is_enabled,
            };
            match bus.depth < MAX_DEPTH {
                true => look_below(node, tell, below),
                false => tell(name_of(node), PhysRange::new(0, u64::MAX)),
            }
        }
    }
}

/// Returns whether a device is known to be harmless, or judged elsewhere.
fn is_harmless(node: FdtNode<'_>, binding: Option<Binding>, is_enabled: bool) -> bool {
    match binding {
        Some(Binding::Uart | Binding::SifiveUart) => true,
        Some(
            Binding::Plic
            | Binding::Aplic
            | Binding::Imsics
            | Binding::PciHost
            | Binding::VirtioMmio,
        ) => is_enabled,
        // Machine mode closes its own controllers, disabled ones too.
        Some(Binding::Clint | Binding::AclintMtimer | Binding::AclintMswi | Binding::PowerFail) => {
            true
        }
        // Machine mode closes the first ones. Others of the kind are not known.
        Some(
            Binding::Switch(..) | Binding::Rtc | Binding::Flash | Binding::FwCfg | Binding::Iommu,
        ) => false,
        None => is_any(node, &HARMLESS),
    }
}
