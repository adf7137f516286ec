//! The machine's memory.

use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::{MAX_RANGES, PhysRange};

use crate::node::is_enabled;

/// There is no memory, or too much, or a range cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMemory;

/// Reads all ranges.
pub(crate) fn read(
    root: FdtNode<'_>,
    memory: &mut ArrayVec<PhysRange, MAX_RANGES>,
) -> Result<(), NoMemory> {
    let is_memory = |node: &FdtNode<'_>| node.name_without_address() == "memory";
    let nodes = root
        .children()
        .filter(|node| is_memory(node) && is_enabled(*node));
    for node in nodes {
        for reg in node.reg().ok().flatten().into_iter().flatten() {
            let (Ok(start), Ok(length)) = (reg.address(), reg.size()) else {
                return Err(NoMemory);
            };
            let range = PhysRange::new(start, length);
            memory.try_push(range).map_err(|_| NoMemory)?;
        }
    }
    if memory.is_empty() {
        return Err(NoMemory);
    }
    Ok(())
}
