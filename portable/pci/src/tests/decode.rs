//! Who answers to an address in a modelled hierarchy.

use crate::Step;
use crate::model::Node;

/// The locations (steps from the root) of the functions that answer to a
/// memory address, each with whether it and all above it may access memory.
pub(crate) fn decoders(nodes: &[Node], address: u64) -> Vec<(Vec<Step>, bool)> {
    let mut found = Vec::new();
    for node in nodes {
        let is_master = node.command() & 4 != 0;
        if node.command() & 2 == 0 || node.is_asleep() {
            continue;
        }
        if bars(node).any(|(start, length)| (start..start + length).contains(&address)) {
            found.push((vec![node.step], is_master));
        }
        if node.is_bridge()
            && windows(node)
                .into_iter()
                .any(|(start, end)| start <= address && address <= end)
        {
            for (mut steps, below) in decoders(&node.children, address) {
                steps.insert(0, node.step);
                found.push((steps, below && is_master));
            }
        }
    }
    found
}

/// Memory BARs of a function: address and length.
pub(crate) fn bars(node: &Node) -> impl Iterator<Item = (u64, u64)> + '_ {
    let count = if node.is_bridge() { 2 } else { 6 };
    (0..count).filter_map(move |index| {
        let (low, mask) = (node.registers[4 + index], node.writable[4 + index]);
        let is_upper = index > 0 && node.registers[3 + index] & 7 == 4;
        if low & 1 != 0 || is_upper || mask & !0xf == 0 && low & 7 != 4 {
            return None;
        }
        let (high, high_mask) = match low & 7 {
            4 => (node.registers[5 + index], node.writable[5 + index]),
            _ => (0, u32::MAX),
        };
        let mask = u64::from(high_mask) << 32 | u64::from(mask & !0xf);
        let length = mask & mask.wrapping_neg();
        (length != 0).then_some((u64::from(high) << 32 | u64::from(low & !0xf), length))
    })
}

/// A bridge's memory windows, first and last address.
pub(crate) fn windows(node: &Node) -> [(u64, u64); 2] {
    let window = |register: usize, upper: [u32; 2]| {
        let value = node.registers[register / 4];
        (
            u64::from(value & 0xfff0) << 16 | u64::from(upper[0]) << 32,
            u64::from(value & 0xfff0_0000) | u64::from(upper[1]) << 32 | 0xf_ffff,
        )
    };
    [
        window(0x20, [0, 0]),
        window(0x24, [node.registers[10], node.registers[11]]),
    ]
}
