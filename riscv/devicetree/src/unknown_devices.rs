//! Devices of unknown kinds. Any of them may access memory by itself.

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use poorwill_memory::PhysRange;

use crate::binding::Binding;
use crate::census::{MAX_DEPTH, NO_DEVICES, STATELESS};
use crate::node::{NodeName, is_any, is_enabled, name_of, regs};

/// Calls `tell` for each range of registers of an enabled device whose kind is not known. A bus
/// below too many others counts as one device with all addresses.
pub fn unknown_devices(tree: &Fdt<'_>, tell: &mut dyn FnMut(NodeName, PhysRange)) {
    look_below(tree.root(), tell, 0);
}

fn look_below(bus: FdtNode<'_>, tell: &mut dyn FnMut(NodeName, PhysRange), depth: u8) {
    for node in bus.children().filter(|node| is_enabled(*node)) {
        if NO_DEVICES.contains(&node.name_without_address()) {
            continue;
        }
        let binding = Binding::of(node);
        if binding.is_none() && !is_any(node, &STATELESS) {
            regs(node).for_each(|range| tell(name_of(node), range));
        }
        // A device's own bus, such as I2C, has other addresses.
        if binding.is_none() && node.property("ranges").is_some() {
            match depth < MAX_DEPTH {
                true => look_below(node, tell, depth + 1),
                false => tell(name_of(node), PhysRange::new(0, u64::MAX)),
            }
        }
    }
}
