//! The memory that an IOMMU's tables and queues take.

use poorwill_devicetree::{DomainNode, Machine, Partition};
use poorwill_memory::PAGE_BYTES;

use super::IdentityMap;

/// Pages for the queues and for a directory's root.
const FIXED_PAGES: u64 = 3;
/// The most directory pages that one device adds: two upper roots, and two pages of its own.
const PAGES_OF_DEVICE: u64 = 4;

/// The most pages for queues, contexts of `devices` devices, and `maps` maps with `ranges` ranges in
/// total.
#[must_use]
pub(super) const fn max_pages(devices: u64, maps: u64, ranges: u64) -> u64 {
    let roots = maps * IdentityMap::max_pages(0);
    let tables = IdentityMap::max_pages(ranges) - IdentityMap::max_pages(0);
    FIXED_PAGES + PAGES_OF_DEVICE * devices + roots + tables
}

/// Bytes for the tables and queues of all IOMMUs of a machine with this partition. Each domain with
/// functions has a map of its memory and interrupt files. Machine mode's own functions have one of
/// their work memory and of all domains' memory.
#[must_use]
pub fn table_bytes(partition: &Partition, machine: &Machine) -> u64 {
    let with_functions = || (partition.domains.iter()).filter(|node| !node.functions.is_empty());
    let own = partition.functions.len() as u64;
    let has_own = u64::from(own > 0);
    let maps = with_functions().count() as u64 + has_own;
    if maps == 0 {
        return 0;
    }
    let devices = with_functions().map(|node| node.functions.len() as u64);
    // A hole splits a range of memory.
    let holes = machine.reserved.len() + 2;
    let memory = |node: &DomainNode| (2 * node.regions.len() + holes) as u64;
    let ranges = with_functions().map(|node| memory(node) + node.harts.len() as u64);
    let of_all = partition.domains.iter().map(memory).sum::<u64>() + 1;
    let ranges = ranges.sum::<u64>() + has_own * of_all;
    let pages = max_pages(own + devices.sum::<u64>(), maps, ranges);
    pages * machine.iommus.len() as u64 * PAGE_BYTES
}
