//! Nodes with registers inside a machine-mode controller, past the end of its `reg`.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::PhysRange;
use thiserror::Error;

use crate::binding::Binding;
use crate::interrupts::is_machine_level;
use crate::node::{NodeName, is_any, is_enabled, name_of, regs};
use crate::own_size::Beyond;

/// A node has registers inside a machine-mode controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{node} lies within the registers of {controller}, which end at {end:#x} and are machine mode's alone: correct the reg of one of the two nodes in the device tree, or disable {node}"
)]
pub struct Intruder {
    /// The node.
    pub node: NodeName,
    /// The controller.
    pub controller: NodeName,
    /// End of the controller's registers.
    pub end: u64,
}

/// Checks that no enabled node has registers in `beyond`, which is empty for a correct tree.
pub(crate) fn look(root: FdtNode<'_>, beyond: &[Beyond]) -> Result<(), Intruder> {
    if beyond.is_empty() {
        return Ok(());
    }
    look_below(root, beyond, &|range| Some(range))
}

/// `to_cpu` translates a range of the bus to CPU addresses.
fn look_below(
    bus: FdtNode<'_>,
    beyond: &[Beyond],
    to_cpu: &dyn Fn(PhysRange) -> Option<PhysRange>,
) -> Result<(), Intruder> {
    for node in bus.children().filter(|node| is_enabled(*node)) {
        if ["chosen", "reserved-memory"].contains(&node.name()) || is_machine_modes(node) {
            continue;
        }
        for range in regs(node).filter_map(to_cpu) {
            if let Some(found) = beyond.iter().find(|beyond| beyond.range.overlaps(&range)) {
                return Err(Intruder {
                    node: name_of(node),
                    controller: found.controller,
                    end: found.range.end,
                });
            }
        }
        if is_bus(node) {
            look_below(node, beyond, &|range| to_cpu(to_parent(node, range)?))?;
        }
    }
    Ok(())
}

/// Returns whether only machine mode uses the node.
fn is_machine_modes(node: FdtNode<'_>) -> bool {
    match Binding::of(node) {
        Some(Binding::Clint | Binding::AclintMtimer | Binding::AclintMswi) => true,
        Some(Binding::Aplic | Binding::Imsics) => is_machine_level(node),
        _ => false,
    }
}

/// Returns whether the CPU can reach the nodes below (Devicetree Specification, 2.3.8).
fn is_bus(node: FdtNode<'_>) -> bool {
    node.property("ranges").is_some() || is_any(node, &["simple-bus"])
}

/// Translates a range of a bus to its parent bus.
fn to_parent(bus: FdtNode<'_>, range: PhysRange) -> Option<PhysRange> {
    let mut ranges = bus.ranges().ok()?.into_iter().flatten().peekable();
    if ranges.peek().is_none() {
        return Some(range);
    }
    ranges.find_map(|window| {
        let child: u64 = window.child_bus_address().ok()?;
        let length: u64 = window.length().ok()?;
        let offset = range.start.checked_sub(child)?;
        let parent: u64 = window.parent_bus_address().ok()?;
        (offset < length).then(|| PhysRange::new(parent.saturating_add(offset), range.length()))
    })
}
