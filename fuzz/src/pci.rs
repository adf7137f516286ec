//! A PCI hierarchy made of an input: functions whose registers behave as such
//! until the input says otherwise.

use poorwill_pci::model::{
    self, BUSES, COMMAND, ETHERNET, EXPRESS, MSI, MSI_X, Model, NVME, Node, POWER, ROM,
    SHARED_MEMORY,
};
use poorwill_pci::{HostBridge, Step};

use crate::{Cases, Input};

/// Functions at most.
const MAX_NODES: usize = 40;

/// A hierarchy below a host bridge whose first bus this is.
#[must_use]
pub fn model(input: &mut Input<'_>, first_bus: u8) -> Model {
    let depth = input.below(9) as u32;
    let mut left = MAX_NODES;
    Model::new(hierarchy(input, depth, &mut left)).with_first_bus(first_bus)
}

/// Some functions on a bus, `depth` levels of bridges deep at most.
fn hierarchy(input: &mut Input<'_>, depth: u32, left: &mut usize) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for device in 0..1 + input.below(4) as u8 {
        let functions = if input.one_in(4) { 3 } else { 1 };
        let first = nodes.len();
        for function in 0..functions {
            let step = Step {
                device: device * 3,
                function,
            };
            let Some(fewer) = left.checked_sub(1) else {
                return nodes;
            };
            *left = fewer;
            nodes.push(node(input, step, depth, left));
        }
        if functions > 1 {
            nodes[first].registers[3] |= 1 << 23;
        }
    }
    nodes
}

fn node(input: &mut Input<'_>, step: Step, depth: u32, left: &mut usize) -> Node {
    let mut node = match input.below(if depth > 0 { 4 } else { 2 }) {
        0 => device(input, step, NVME),
        1 if input.one_in(3) => Node::shared(step, 0x10_0000 << input.below(16)),
        1 => device(input, step, ETHERNET),
        _ => {
            let port = [4, 5, 6][input.below(3) as usize];
            Node::bridge(step, port, hierarchy(input, depth - 1, left))
        }
    };
    configure(input, &mut node);
    corrupt(input, &mut node);
    node
}

fn device(input: &mut Input<'_>, step: Step, class: u32) -> Node {
    let mut node = Node::new(step, class);
    node.bar(0, 0x1000 << input.below(24), input.one_in(2));
    node.define(ROM, 0, 0xffff_0001);
    node
}

/// What an OS may have left: addresses, bus numbers, sleep, events.
fn configure(input: &mut Input<'_>, node: &mut Node) {
    if input.one_in(2) {
        return;
    }
    let places = [COMMAND, 0x10, 0x14, BUSES, 0x20, 0x24, 0x28, 0x2c, ROM];
    for place in places.into_iter().chain([MSI, MSI + 4, MSI_X]) {
        let writable = node.writable[place / 4];
        let value = match (place, input.below(4)) {
            (_, 0) => 0,
            (BUSES, 1) => (1 + input.below(4) as u32) << 8 | (input.below(9) as u32) << 16,
            (0x10 | 0x20, 1) => 0x4000_4000 | (input.below(64) as u32) << 20,
            _ => input.any(),
        };
        node.registers[place / 4] = node.registers[place / 4] & !writable | value & writable;
    }
    if input.one_in(3) {
        node.registers[POWER / 4 + 1] |= 3;
    }
    if input.one_in(3) {
        for (register, clearable) in node.registers.iter_mut().zip(node.clearable) {
            *register |= clearable & input.any::<u32>();
        }
    }
}

/// Registers as no sane device has them.
fn corrupt(input: &mut Input<'_>, node: &mut Node) {
    if !input.one_in(3) {
        return;
    }
    node.is_stuck = input.one_in(6);
    node.is_odd = true;
    for _ in 0..=input.below(4) {
        let places = [0x00, 0x08, 0x0c, 0x10, 0x14, 0x18, 0x20, 0x24, 0x34];
        let place = match input.below(3) {
            0 => places[input.below(places.len() as u64) as usize],
            1 => [POWER, MSI, EXPRESS, MSI_X, POWER + 4][input.below(5) as usize],
            _ => 4 * input.below(64) as usize,
        };
        let index = place / 4;
        match input.below(3) {
            0 => node.registers[index] = input.any(),
            1 => node.registers[index] ^= 1 << input.below(32),
            // Elsewhere, no device keeps what nobody may write.
            _ if place == 0x10 || place == 0x14 => node.writable[index] = input.any(),
            _ => {}
        }
    }
}

/// Lets devices that are no bus masters any more in `after` be none before.
pub fn expect_cut(before: &mut [Node], after: &[Node]) {
    for (before, after) in before.iter_mut().zip(after) {
        let is_controller = before.registers[2] >> 8 == NVME >> 8;
        if is_controller || before.registers[0] == SHARED_MEMORY {
            before.registers[COMMAND / 4] &= after.registers[COMMAND / 4] | !4;
        }
        expect_cut(&mut before.children, &after.children);
    }
}

/// A host bridge: the one of QEMU's `virt`, or one that the input makes.
#[must_use]
pub fn host(input: &mut Input<'_>) -> HostBridge {
    let mut host = model::host();
    if input.one_in(4) {
        (host.first_bus, host.last_bus) = (input.any(), input.any());
    }
    for window in &mut host.windows {
        if input.one_in(8) {
            window.prefetchable = input.any();
            window.pci_address = input.edgy();
            window.cpu_address = input.edgy();
            window.length = input.edgy();
        }
    }
    host
}
