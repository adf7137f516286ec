//! Small readers of node properties, shared by the rest of the crate.

use arrayvec::ArrayString;
use dtoolkit::fdt::{FdtNode, FdtProperty};
use dtoolkit::standard::NodeStandard;
use dtoolkit::{Node, Property};
use poorwill_memory::PhysRange;

/// How many levels of buses are below the root's own, at most: that is deeper than any
/// device that matters here.
pub(crate) const BUS_LEVELS: u8 = 3;

/// How deep nodes may lie. Walking them takes stack for each level.
pub(crate) const MAX_DEPTH: u32 = 32;

/// The name of a node, as much of it as fits.
pub type NodeName = ArrayString<48>;

/// A node's name, to be told.
pub(crate) fn name_of(node: FdtNode<'_>) -> NodeName {
    let mut name = NodeName::new();
    let mut letters = node.name().chars();
    while letters
        .next()
        .is_some_and(|letter| name.try_push(letter).is_ok())
    {}
    name
}

/// Whether any of `names` stands in the node's `compatible`.
pub(crate) fn is_any(node: FdtNode<'_>, names: &[&str]) -> bool {
    node.compatible()
        .is_some_and(|mut list| list.any(|name| names.contains(&name)))
}

/// Whether the node is in use: `status` absent or "okay".
pub(crate) fn is_enabled(node: FdtNode<'_>) -> bool {
    node.property("status")
        .is_none_or(|status| matches!(status.value().strip_suffix(b"\0"), Some(b"okay" | b"ok")))
}

/// A hart that an OS takes for its own: one that is enabled.
pub(crate) fn is_enabled_hart(cpu: FdtNode<'_>) -> bool {
    let device_type = cpu.property("device_type");
    device_type.is_some_and(|kind| kind.value() == b"cpu\0") && is_enabled(cpu)
}

/// A hart that an OS can be started on: enabled, and with an MMU. Monitor cores
/// (SiFive's E51) have none.
pub(crate) fn can_run_os(cpu: FdtNode<'_>) -> bool {
    is_enabled_hart(cpu)
        && cpu.child("interrupt-controller").is_some()
        && reg(cpu, 0).is_some()
        && cpu
            .property("mmu-type")
            .is_some_and(|kind| kind.value() != b"riscv,none\0")
}

/// The property's first cell.
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

/// The bytes of the property, for as long as there is the tree.
pub(crate) fn bytes_of<'a>(property: FdtProperty<'a>) -> &'a [u8] {
    property.value_as::<&'a [u8]>().unwrap_or_default()
}

/// The `index`th range of `reg`, as physical addresses.
pub(crate) fn reg(node: FdtNode<'_>, index: usize) -> Option<PhysRange> {
    let reg = node.reg().ok()??.nth(index)?;
    Some(PhysRange::new(reg.address().ok()?, reg.size().unwrap_or(0)))
}

/// All ranges of `reg`.
pub(crate) fn regs<'a>(node: FdtNode<'a>) -> impl Iterator<Item = PhysRange> + use<'a> {
    let ranges = node.reg().ok().flatten().into_iter().flatten();
    ranges.filter_map(|reg| Some(PhysRange::new(reg.address().ok()?, reg.size().unwrap_or(0))))
}

/// The node's phandle.
pub(crate) fn phandle(node: FdtNode<'_>) -> Option<u32> {
    node.phandle().ok().flatten()
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

/// The controller's places for an interrupt of harts, with the phandles of these harts'
/// interrupt controllers: the n-th pair of `interrupts-extended` owns the n-th place. A pair
/// that is not connected (0xffffffff, as of a monitor hart) has its place, too.
pub(crate) fn places_of<'a>(
    node: FdtNode<'a>,
    interrupt: u32,
) -> impl Iterator<Item = (u64, u32)> + use<'a> {
    let numbered = (0..).zip(hart_interrupts(node));
    numbered.filter_map(move |(place, (controller, found))| {
        (found == interrupt).then_some((place, controller))
    })
}
