//! Limits a machine's tree to a domain: harts and devices of others are disabled.

use dtoolkit::Node;
use dtoolkit::fdt_mut::{FdtMut, SliceBuffer};
use poorwill_memory::PhysRange;

use crate::binding::Binding;
use crate::census::{MAX_DEPTH, NO_DEVICES};
use crate::hide::{NodeMut, disable};
use crate::node::{is_any, is_enabled, is_enabled_hart, name_of, reg};
use crate::partition::CONFIG;

/// What a domain has of the machine that its tree describes.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// IDs of its harts, ascending.
    pub harts: &'a [u64],
    /// Addresses of its devices.
    pub devices: &'a [&'a [PhysRange]],
    /// Memory of the machine that is not the domain's.
    pub foreign: &'a [PhysRange],
}

/// Disables harts and devices that are not the domain's, and removes the description of domains.
/// `None`: the blob has no room for that.
pub(crate) fn limit(tree: &mut FdtMut<SliceBuffer<'_>>, limits: &Limits<'_>) -> Option<()> {
    limit_bus(&mut tree.root_mut(), limits, 0)?;
    let mut root = tree.root_mut();
    if let Some(mut cpus) = root.child_mut("cpus") {
        limit_harts(&mut cpus, limits)?;
    }
    if let Some(mut chosen) = root.child_mut("chosen") {
        remove_description(&mut chosen);
    }
    Some(())
}

fn limit_harts(cpus: &mut NodeMut<'_, '_>, limits: &Limits<'_>) -> Option<()> {
    let mut nodes = cpus.children_mut();
    while let Some(mut node) = nodes.next() {
        node.remove_property("opensbi-domain");
        let cpu = node.as_read_only();
        let is_its = |id: PhysRange| limits.harts.binary_search(&id.start).is_ok();
        if is_enabled_hart(cpu) && !reg(cpu, 0).is_some_and(is_its) {
            disable(&mut node)?;
        }
    }
    Some(())
}

/// Disables devices whose first registers the domain may not access. The addresses below a device's
/// own bus, such as I2C, are other ones.
fn limit_bus(bus: &mut NodeMut<'_, '_>, limits: &Limits<'_>, depth: u8) -> Option<()> {
    let mut nodes = bus.children_mut();
    while let Some(mut node) = nodes.next() {
        let found = node.as_read_only();
        if !is_enabled(found) || NO_DEVICES.contains(&found.name_without_address()) {
            continue;
        }
        let is_its = |registers: PhysRange| {
            let mut open = limits.devices.iter().flat_map(|ranges| ranges.iter());
            open.any(|range| range.contains(registers.start))
        };
        let is_bus = Binding::of(found).is_none() && found.property("ranges").is_some();
        if reg(found, 0).is_some_and(|registers| !is_its(registers)) {
            disable(&mut node)?;
        } else if is_bus && depth < MAX_DEPTH {
            limit_bus(&mut node, limits, depth + 1)?;
        }
    }
    Some(())
}

/// Removes the first description of domains below `/chosen`; a partition has one.
fn remove_description(chosen: &mut NodeMut<'_, '_>) {
    let described = chosen.as_read_only();
    let mut nodes = described.children();
    let found = nodes.find(|node| is_any(*node, &[CONFIG]));
    if let Some(name) = found.map(name_of) {
        chosen.remove_child(&name);
    }
}
