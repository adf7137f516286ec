use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use poorwill_memory::PhysRange;
use poorwill_pci::Function;

use crate::binding::Binding;
use crate::devices::int;
use crate::node::{BUS_LEVELS, cell, cells, find_by_phandle, is_any, is_enabled};

/// Cells of a PCI address, and of a pin.
const ADDRESS_CELLS: usize = 3;
const UNIT_CELLS: usize = ADDRESS_CELLS + 1;

/// Maximum cells of an interrupt in the interrupt controller's binding, and of its address.
const MAX_PARENT_CELLS: u32 = 8;

/// Connections of the functions below a host bridge: INTx lines, and the IOMMU. It reads the tree
/// at each question, since few ask.
#[derive(Clone, Copy, Debug)]
pub struct PciWiring<'t> {
    root: FdtNode<'t>,
    host: FdtNode<'t>,
    /// The controller of the first line, and the first IOMMU, by their phandles. Mostly there are no
    /// others, and a search for a phandle takes time.
    controller: Option<(u32, FdtNode<'t>)>,
    iommu: Option<(u32, FdtNode<'t>)>,
}

/// An input of an interrupt controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntxSource {
    /// Phandle of the controller.
    pub controller: u32,
    /// Number of the source.
    pub source: u32,
}

impl<'t> PciWiring<'t> {
    /// The wiring of the first host bridge with ECAM; `None` without one.
    #[must_use]
    pub fn first(tree: &Fdt<'t>) -> Option<Self> {
        let root = tree.root();
        let (bus, host) = first_host(root, 0)?;
        let named = |name, place| {
            let phandle = cells(host, name)?.nth(place)?;
            // Controllers are mostly on the host's bus.
            let near = find_by_phandle(bus, phandle, 0);
            Some((phandle, near.or_else(|| find_by_phandle(root, phandle, 0))?))
        };
        Some(PciWiring {
            root,
            host,
            controller: named("interrupt-map", UNIT_CELLS),
            iommu: named("iommu-map", 1),
        })
    }

    /// The CPU's addresses of I/O ports; `None` if no window of the host bridge has all of them (PCI
    /// Bus Binding to Open Firmware, 2.2.1.1, `ranges` space code 1).
    #[must_use]
    pub fn ports(&self, ports: PhysRange) -> Option<PhysRange> {
        let entries = self.host.property("ranges")?;
        let mut entries = entries.as_prop_encoded_array([1, 2, 2, 2]).ok()?;
        entries.find_map(|entry| {
            let [flags, bus, cpu, length] = entry.map(int);
            let window = PhysRange::new(bus?, length?);
            let is_its = flags? >> 24 & 3 == 1 && window.contains(ports.start);
            let start = cpu?.checked_add(ports.start.checked_sub(window.start)?)?;
            (is_its && ports.end <= window.end).then(|| PhysRange::new(start, ports.length()))
        })
    }

    /// The source that pin INTA (1) to INTD (4) of a device on the first bus raises; `None` without
    /// such a line.
    #[must_use]
    pub fn source(&self, device: u8, pin: u8) -> Option<IntxSource> {
        let mut masks = [u32::MAX; UNIT_CELLS];
        if let Some(mask) = cells(self.host, "interrupt-map-mask") {
            masks.iter_mut().zip(mask).for_each(|(to, from)| *to = from);
        }
        let unit = [u32::from(device) << 11, 0, 0, pin.into()];
        let mut map = cells(self.host, "interrupt-map")?;
        loop {
            let mut found = [0; UNIT_CELLS];
            for cell in &mut found {
                *cell = map.next()?;
            }
            let controller = map.next()?;
            let parent = self.node(self.controller, controller)?;
            let address_cells = cell(parent, "#address-cells").unwrap_or(0);
            let interrupt_cells = cell(parent, "#interrupt-cells").unwrap_or(1);
            if address_cells > MAX_PARENT_CELLS || interrupt_cells > MAX_PARENT_CELLS {
                return None;
            }
            for _ in 0..address_cells {
                map.next()?;
            }
            let source = map.next()?;
            for _ in 1..interrupt_cells {
                map.next()?;
            }
            let masked = found.iter().zip(unit).zip(masks);
            if masked
                .into_iter()
                .all(|((found, unit), mask)| (found ^ unit) & mask == 0)
            {
                return Some(IntxSource { controller, source });
            }
        }
    }

    /// The node with this phandle, which may be the known one.
    fn node(&self, known: Option<(u32, FdtNode<'t>)>, phandle: u32) -> Option<FdtNode<'t>> {
        match known {
            Some((found, node)) if found == phandle => Some(node),
            _ => find_by_phandle(self.root, phandle, 0),
        }
    }

    /// The device ID by which an IOMMU knows the function's memory accesses (`iommu-map`); `None` if
    /// the host bridge passes them to no IOMMU.
    #[must_use]
    pub fn device_id(&self, function: Function) -> Option<u32> {
        let mask = cell(self.host, "iommu-map-mask").unwrap_or(u32::MAX);
        let requester = u32::from(function.routing_id()) & mask;
        let mut map = cells(self.host, "iommu-map")?;
        loop {
            let (first, iommu) = (map.next()?, map.next()?);
            let (first_id, length) = (map.next()?, map.next()?);
            let offset = requester
                .checked_sub(first)
                .filter(|offset| *offset < length);
            let is_iommu = |node| is_enabled(node) && is_any(node, &["riscv,iommu"]);
            if let Some(offset) = offset
                && self.node(self.iommu, iommu).is_some_and(is_iommu)
            {
                // A damaged entry names a number that no function has.
                return Some(first_id.saturating_add(offset));
            }
        }
    }
}

/// The first host bridge below a node, in the order in which [`Machine`](crate::Machine) lists
/// them, after the bus that it is on.
fn first_host(bus: FdtNode<'_>, depth: u8) -> Option<(FdtNode<'_>, FdtNode<'_>)> {
    let mut nodes = (bus.children()).filter(|node| !["cpus", "chosen"].contains(&node.name()));
    nodes.find_map(|node| match Binding::of(node) {
        Some(Binding::PciHost) if is_enabled(node) => node.property("reg").map(|_| (bus, node)),
        None if depth < BUS_LEVELS && is_enabled(node) => first_host(node, depth + 1),
        _ => None,
    })
}
