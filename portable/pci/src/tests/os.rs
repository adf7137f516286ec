//! Hierarchies as an OS, or nobody, left them.

use crate::Step;
use crate::model::{MSI, MSI_X, Node, POWER};

/// A small generator of random numbers, so that a case is one number.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Some functions on a bus, `depth` levels of bridges deep at most.
pub(crate) fn hierarchy(random: &mut Random, depth: u32) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for device in 0..random.below(5) as u8 {
        let step = Step {
            device: device * 3,
            function: 0,
        };
        let functions = if random.one_in(4) { 3 } else { 1 };
        for function in 0..functions {
            nodes.push(node(random, Step { function, ..step }, depth));
        }
        if functions > 1 {
            let first = nodes.len() - usize::from(functions);
            nodes[first].registers[3] |= 1 << 23;
        }
    }
    nodes
}

fn node(random: &mut Random, step: Step, depth: u32) -> Node {
    let is_wide = random.one_in(2);
    let mut node = match random.below(if depth > 0 { 4 } else { 2 }) {
        0 => Node::nvme(step, 0x4000 << random.below(4), is_wide),
        1 if random.one_in(3) => Node::shared(step, 0x10_0000 << random.below(5)),
        1 => Node::other(step, 0x1000 << random.below(12), is_wide),
        _ => bridge(random, step, depth),
    };
    node.keeps = random.one_in(2);
    node
}

fn bridge(random: &mut Random, step: Step, depth: u32) -> Node {
    if random.one_in(2) {
        return Node::bridge(step, 5, hierarchy(random, depth - 1));
    }
    // At the end of a link there is only device 0.
    let below = Step {
        device: 0,
        function: 0,
    };
    let children = if random.one_in(5) {
        Vec::new()
    } else {
        vec![node(random, below, depth - 1)]
    };
    Node::bridge(step, if depth > 2 { 4 } else { 6 }, children)
}

/// Numbers and addresses everything, as an OS does.
pub(crate) fn configure(nodes: &mut [Node]) {
    let mut allocator = Allocator {
        bus: 0,
        memory: 0x4000_0000,
        wide: 0x4_0000_0000,
    };
    allocator.configure(nodes, 0);
}

struct Allocator {
    bus: u8,
    memory: u64,
    wide: u64,
}

impl Allocator {
    fn configure(&mut self, nodes: &mut [Node], number: u8) {
        for node in nodes {
            if node.is_bridge() {
                self.configure_bridge(node, number);
            } else {
                self.place_bars(node, number == 0);
            }
            node.registers[1] |= 0x0406;
            node.registers[MSI_X / 4] |= 1 << 31;
            node.registers[MSI / 4 + 1] = 0xfee0_0000;
        }
    }

    fn place_bars(&mut self, node: &mut Node, may_be_high: bool) {
        for bar in 0..6 {
            let mask = node.writable[4 + bar] & !0xf;
            let low = node.registers[4 + bar];
            if mask == 0 || (bar > 0 && node.registers[3 + bar] & 7 == 4) {
                continue;
            }
            let length = u64::from(mask & mask.wrapping_neg());
            let is_high = may_be_high && low & 7 == 4 && length % 0x8000 == 0;
            let next = if is_high {
                &mut self.wide
            } else {
                &mut self.memory
            };
            let address = next.next_multiple_of(length);
            *next = address + length;
            node.registers[4 + bar] = low & 0xf | address as u32;
            if low & 7 == 4 {
                node.registers[5 + bar] = (address >> 32) as u32;
            }
        }
    }

    fn configure_bridge(&mut self, node: &mut Node, number: u8) {
        self.bus += 1;
        let secondary = self.bus;
        self.memory = self.memory.next_multiple_of(1 << 20);
        let start = self.memory;
        self.configure(&mut node.children, secondary);
        self.memory = self.memory.next_multiple_of(1 << 20);
        let last = (self.memory - 1) >> 20;
        node.registers[6] = u32::from_le_bytes([number, secondary, self.bus, 0]);
        // Closed where nothing is behind, as the prefetchable one always is.
        node.registers[8] = (start >> 20 << 4 | last << 20) as u32;
        node.registers[9] = 0x0001_fff1;
    }
}

/// What drivers and a suspend do to functions afterwards; nothing that makes
/// two of them answer to the same address.
pub(crate) fn disturb(random: &mut Random, nodes: &mut [Node]) {
    for node in nodes {
        disturb(random, &mut node.children);
        if random.one_in(3) {
            node.registers[1] &= !(random.next() as u32 & 0x0406);
        }
        if !node.is_bridge() && random.one_in(4) {
            node.registers[4] &= 0xf;
            node.registers[5] = 0;
            node.registers[1] &= !2;
        }
        if random.one_in(8) && node.is_bridge() {
            // Closed and without numbers again.
            node.registers[8] = 0xfff0;
            node.registers[6] = 0;
        }
        if random.one_in(3) {
            node.registers[POWER / 4 + 1] |= 3;
        }
        for index in 0..64 {
            // Events that nobody has looked at yet.
            node.registers[index] |= node.clearable[index] & random.next() as u32;
        }
    }
}

/// Registers as no sane device has them.
pub(crate) fn corrupt(random: &mut Random, nodes: &mut [Node]) {
    for node in nodes {
        corrupt(random, &mut node.children);
        node.is_stuck = random.one_in(6);
        // Nobody can save registers that are not where they are said to be.
        node.keeps = true;
        for _ in 0..random.below(4) {
            let places = [
                0x0c, 0x10, 0x14, 0x18, 0x20, 0x24, 0x34, POWER, MSI, 0x70, MSI_X, 0x08, 0x00,
            ];
            let place = places[random.below(places.len() as u64) as usize] / 4;
            let noise = random.next() as u32 & random.next() as u32;
            node.registers[place] ^= noise;
            if place == 3 {
                // A bridge that says to be none has no status where BARs are.
                (node.clearable[7], node.clearable[15]) = (0, 0);
            }
            if place == 4 || place == 5 {
                node.writable[place] = random.next() as u32 & !0xf;
            }
        }
    }
}
