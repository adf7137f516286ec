//! Memory that the tree marks as in use, and its owners.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use poorwill_memory::PhysRange;

use crate::bound::{self, TooMany};
use crate::node::{cells, is_enabled, regs};

/// Maximum number of reserved ranges of memory.
pub const MAX_RESERVED: usize = 32;

/// A range of memory that is in use when the firmware starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The range.
    pub range: PhysRange,
    /// Its owner.
    pub holder: Holder,
}

/// Owner of a reserved range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The OS: its data lies there, or it needs the range for a device.
    Os,
    /// Another owner: the OS may not even map it (`no-map`; Devicetree Specification 0.4, 3.5.4).
    Other,
    /// Unknown: the memory reservation block has no owners (5.3). It counts as another owner's,
    /// unless one of the OS's loaded files lies there.
    Unsaid,
}

/// The ranges of `reserved` that are not the OS's. `loaded`: addresses of the OS's loaded files.
pub(crate) fn foreign<'a>(
    reserved: &'a [Reserved],
    loaded: &'a [u64],
) -> impl Iterator<Item = PhysRange> + 'a {
    let of_os = |other: &&Reserved| other.holder == Holder::Os;
    let starts_os = move |range: PhysRange| {
        let mut of_os = reserved.iter().filter(of_os);
        loaded.iter().any(|address| range.contains(*address))
            || of_os.any(|other| range.contains(other.range.start))
    };
    let is_foreign = move |reserved: &&Reserved| match reserved.holder {
        Holder::Os => false,
        Holder::Other => true,
        Holder::Unsaid => !starts_os(reserved.range),
    };
    (reserved.iter().filter(is_foreign)).map(|reserved| reserved.range)
}

/// Reads all reserved ranges.
///
/// # Errors
///
/// [`TooMany`].
pub(crate) fn read(
    tree: &Fdt<'_>,
    into: &mut ArrayVec<Reserved, MAX_RESERVED>,
) -> Result<(), TooMany> {
    let block = tree.memory_reservations().map(|entry| Reserved {
        range: PhysRange::new(entry.address(), entry.size()),
        holder: Holder::Unsaid,
    });
    let nodes = tree.root().child("reserved-memory");
    let nodes = nodes.into_iter().flat_map(|node| node.children());
    let nodes = nodes.filter(|node| is_enabled(*node)).flat_map(of_node);
    let disk = initial_ram_disk(tree.root()).map(|range| Reserved {
        range,
        holder: Holder::Os,
    });
    for reserved in block.chain(nodes).chain(disk) {
        bound::push(into, "reserved ranges of memory", reserved)?;
    }
    Ok(())
}

fn of_node<'a>(node: FdtNode<'a>) -> impl Iterator<Item = Reserved> + use<'a> {
    let holder = match node.property("no-map") {
        Some(_) => Holder::Other,
        None => Holder::Os,
    };
    regs(node).map(move |range| Reserved { range, holder })
}

/// The initial RAM disk in `/chosen`: `linux,initrd-start` and `-end`, of one cell or two.
fn initial_ram_disk(root: FdtNode<'_>) -> Option<PhysRange> {
    let chosen = root.child("chosen")?;
    let address = |name| {
        let cells = cells(chosen, name)?;
        Some(cells.fold(0, |address, cell| address << 32 | u64::from(cell)))
    };
    let start = address("linux,initrd-start")?;
    let end = address("linux,initrd-end")?;
    Some(PhysRange { start, end })
}
