//! Plans on modelled hierarchies.
#![allow(
    clippy::cast_possible_truncation,
    reason = "registers are cut from words"
)]

mod faults;
mod properties;
mod virt;

use poorwill_memory::PhysRange;

use super::*;
use crate::model::{Model, Node, host};
use crate::{Function, Step};

/// A plan in lists.
#[derive(Clone, Debug, Default)]
struct Lists {
    functions: Vec<PlacedFunction>,
    ranges: Vec<PlacedRange>,
}

impl Lists {
    fn function(mut self, function: Function) -> Self {
        let buses = None;
        self.functions.push(PlacedFunction { function, buses });
        self
    }

    fn bridge(mut self, function: Function, first: u8, last: u8) -> Self {
        let buses = Some((first, last));
        self.functions.push(PlacedFunction { function, buses });
        self
    }

    /// A range of the last named function.
    fn range(self, register: u8, kind: AddressKind, start: u64, length: u64) -> Self {
        let function = self.functions.last().unwrap().function;
        self.range_of(function, register, kind, PhysRange::new(start, length))
    }

    fn range_of(
        mut self,
        function: Function,
        register: u8,
        kind: AddressKind,
        range: PhysRange,
    ) -> Self {
        self.ranges.push(PlacedRange {
            function,
            register,
            kind,
            range,
        });
        self
    }

    fn check(&self) -> Result<(), PlacementError> {
        let plan = Plan::new(self.functions.iter().copied(), self.ranges.iter().copied());
        plan.check(&host())
    }

    fn place(&self, model: &Model) -> Result<(), PlacementError> {
        let plan = Plan::new(self.functions.iter().copied(), self.ranges.iter().copied());
        plan.place(model, &host())
    }
}

fn at(bus: u8, device: u8) -> Function {
    Function {
        bus,
        device,
        function: 0,
    }
}

fn step(device: u8) -> Step {
    Step {
        device,
        function: 0,
    }
}

/// A conventional bridge.
fn bridge(device: u8, children: Vec<Node>) -> Node {
    const TO_CONVENTIONAL: u32 = 7;
    Node::bridge(step(device), TO_CONVENTIONAL, children)
}

/// A function with I/O BARs of these lengths.
fn with_ports(device: u8, lengths: &[u32]) -> Node {
    let mut node = Node::new(step(device), 0x0700_0201);
    for (index, length) in lengths.iter().enumerate() {
        node.define(0x10 + 4 * index, 1, !(length - 1) & 0xffff_fffc);
    }
    node
}

/// Whether all functions that can act are below a bridge that is off.
fn is_silent(nodes: &[Node]) -> bool {
    nodes.iter().all(|node| node.command() & 7 == 0)
}
