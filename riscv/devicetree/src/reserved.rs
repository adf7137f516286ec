//! Memory that the tree says is in use, and whose it is.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use poorwill_memory::PhysRange;

use crate::bound::{self, TooMany};
use crate::node::{cells, is_enabled, regs};

/// How many reserved ranges of memory a machine may have.
pub const MAX_RESERVED: usize = 32;

/// A range of memory that is in use when the firmware starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// It.
    pub range: PhysRange,
    /// Who uses it.
    pub holder: Holder,
}

/// Who uses a reserved range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The OS, which finds something there or wants the range for a device of its own.
    Os,
    /// Somebody else: the OS may not even map it (`no-map`; Devicetree Specification
    /// 0.4, 3.5.4).
    Other,
    /// The memory reservation block does not say (5.3): somebody else, unless what the OS
    /// starts from lies there.
    Unsaid,
}

/// Those of `reserved` that are not the OS's; `loaded` are the addresses of what was
/// loaded for it.
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

/// Reads all of them.
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

/// What `/chosen` says of it: `linux,initrd-start` and `-end`, of one cell or two.
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
