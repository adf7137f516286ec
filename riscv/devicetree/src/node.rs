//! Readers of node properties.

use arrayvec::ArrayString;
use dtoolkit::fdt::{FdtNode, FdtProperty};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use poorwill_memory::PhysRange;

/// Maximum levels of buses below the root's own. No device that the firmware needs lies deeper.
pub(crate) const BUS_LEVELS: u8 = 3;

/// Maximum depth of nodes, since a walk takes stack for each level.
pub(crate) const MAX_DEPTH: u32 = 32;

/// The name of a node, possibly shortened.
pub type NodeName = ArrayString<48>;

/// Returns a node's name, shortened if it does not fit.
pub(crate) fn name_of(node: FdtNode<'_>) -> NodeName {
    let mut name = NodeName::new();
    let mut letters = node.name().chars();
    while letters
        .next()
        .is_some_and(|letter| name.try_push(letter).is_ok())
    {}
    name
}

/// Returns whether the node's `compatible` contains one of `names`.
pub(crate) fn is_any(node: FdtNode<'_>, names: &[&str]) -> bool {
    node.compatible()
        .is_some_and(|mut list| list.any(|name| names.contains(&name)))
}

/// Returns whether the node is in use: `status` absent or "okay".
pub(crate) fn is_enabled(node: FdtNode<'_>) -> bool {
    node.property("status")
        .is_none_or(|status| matches!(status.value().strip_suffix(b"\0"), Some(b"okay" | b"ok")))
}

/// Returns whether an OS would use the hart: it is enabled.
pub(crate) fn is_enabled_hart(cpu: FdtNode<'_>) -> bool {
    let device_type = cpu.property("device_type");
    device_type.is_some_and(|kind| kind.value() == b"cpu\0") && is_enabled(cpu)
}

/// Returns whether an OS can start on the hart: it is enabled and has an MMU. Monitor cores
/// (SiFive's E51) have no MMU.
pub(crate) fn can_run_os(cpu: FdtNode<'_>) -> bool {
    is_enabled_hart(cpu)
        && cpu.child("interrupt-controller").is_some()
        && reg(cpu, 0).is_some()
        && has_mmu(cpu)
}

/// Returns whether the tree says that the hart has an MMU.
pub(crate) fn has_mmu(cpu: FdtNode<'_>) -> bool {
    let kind = cpu.property("mmu-type");
    kind.is_some_and(|kind| kind.value() != b"riscv,none\0")
}

pub(crate) fn cell(node: FdtNode<'_>, name: &str) -> Option<u32> {
    cells(node, name).and_then(|mut list| list.next())
}

/// All cells of the property.
pub(crate) fn cells<'a>(
    node: FdtNode<'a>,
    name: &str,
) -> Option<impl Iterator<Item = u32> + use<'a>> {
    node.property(name).map(cells_of)
}

/// All cells of the property.
pub(crate) fn cells_of<'a>(property: FdtProperty<'a>) -> impl Iterator<Item = u32> + use<'a> {
    let (cells, _) = bytes_of(property).as_chunks::<4>();
    cells.iter().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Bytes of the property, with the tree's lifetime.
pub(crate) fn bytes_of<'a>(property: FdtProperty<'a>) -> &'a [u8] {
    property.value_as::<&'a [u8]>().unwrap_or_default()
}

/// Range `index` of `reg`, as physical addresses.
pub(crate) fn reg(node: FdtNode<'_>, index: usize) -> Option<PhysRange> {
    let reg = node.reg().ok()??.nth(index)?;
    Some(PhysRange::new(reg.address().ok()?, reg.size().unwrap_or(0)))
}

/// All ranges of `reg`.
pub(crate) fn regs<'a>(node: FdtNode<'a>) -> impl Iterator<Item = PhysRange> + use<'a> {
    let ranges = node.reg().ok().flatten().into_iter().flatten();
    ranges.filter_map(|reg| Some(PhysRange::new(reg.address().ok()?, reg.size().unwrap_or(0))))
}

pub(crate) fn phandle(node: FdtNode<'_>) -> Option<u32> {
    node.phandle().ok().flatten()
}

/// The node with a phandle, not deep below `node`.
pub(crate) fn find_by_phandle<'a>(
    node: FdtNode<'a>,
    wanted: u32,
    depth: u8,
) -> Option<FdtNode<'a>> {
    if phandle(node) == Some(wanted) {
        return Some(node);
    }
    if depth > 4 {
        return None;
    }
    node.children()
        .find_map(|child| find_by_phandle(child, wanted, depth + 1))
}

/// The pairs (phandle of a hart's interrupt controller, interrupt number) of
/// `interrupts-extended`.
pub(crate) fn hart_interrupts<'a>(node: FdtNode<'a>) -> impl Iterator<Item = (u32, u32)> + use<'a> {
    let value = node.property("interrupts-extended").map(bytes_of);
    let value = value.unwrap_or_default();
    value.as_chunks::<8>().0.iter().map(|bytes| {
        let [a, b, c, d, e, f, g, h] = *bytes;
        (
            u32::from_be_bytes([a, b, c, d]),
            u32::from_be_bytes([e, f, g, h]),
        )
    })
}

/// The indexes of a controller's registers for one interrupt of its harts, each with the phandle of
/// its hart's interrupt controller. Pair n of `interrupts-extended` owns index n. An unconnected
/// pair (0xffffffff, for example of a monitor hart) has an index, too.
pub(crate) fn places_of<'a>(
    node: FdtNode<'a>,
    interrupt: u32,
) -> impl Iterator<Item = (u64, u32)> + use<'a> {
    let numbered = (0..).zip(hart_interrupts(node));
    numbered.filter_map(move |(place, (controller, found))| {
        (found == interrupt).then_some((place, controller))
    })
}
