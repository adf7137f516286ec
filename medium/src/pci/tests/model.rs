//! A modelled PCI hierarchy: functions with registers that behave as such,
//! bridges that forward what they are told to, power states, a clock.

use std::cell::{Cell, RefCell};

use crate::Clock;
use crate::pci::{ConfigSpace, Function, Step};

/// Where capabilities are in every modelled function.
pub(super) const POWER: usize = 0x40;
pub(super) const MSI: usize = 0x50;
pub(super) const EXPRESS: usize = 0x70;
pub(super) const MSI_X: usize = 0xb0;

const COMMAND: usize = 0x04;
const BUSES: usize = 0x18;
const NVME: u32 = 0x0108_0201;
const ETHERNET: u32 = 0x0200_0001;
const BRIDGE: u32 = 0x0604_0001;

/// A function and, if it is a bridge, what is behind it.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) step: Step,
    pub(super) registers: [u32; 64],
    /// Bits that writes change.
    pub(super) writable: [u32; 64],
    /// Bits that writing ones clears.
    pub(super) clearable: [u32; 64],
    pub(super) children: Vec<Node>,
    /// Keeps its registers from D3hot to D0.
    pub(super) keeps: bool,
    /// Stays in D3hot.
    pub(super) is_stuck: bool,
    /// Until when it must be left alone.
    busy_until: u64,
}

/// The hierarchy below a host bridge whose first bus is 0.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) root: RefCell<Vec<Node>>,
    now: Cell<u64>,
    pub(super) accesses: Cell<u64>,
    /// The most accesses that anything may take.
    pub(super) limit: u64,
}

impl Node {
    fn new(step: Step, class: u32) -> Self {
        let mut node = Node {
            step,
            registers: [0; 64],
            writable: [0; 64],
            clearable: [0; 64],
            children: Vec::new(),
            keeps: true,
            is_stuck: false,
            busy_until: 0,
        };
        node.define(0x00, 0x0010_1b36, 0);
        node.define(COMMAND, 0x0010_0000, 0x0547);
        node.clearable[COMMAND / 4] = 0xf900_0000;
        node.define(0x08, class, 0);
        node.define(0x0c, 0, 0xff);
        node.define(0x34, POWER as u32, 0);
        node.define(0x3c, 0x0100, 0xff);
        node.define(POWER, 0x0003_0001 | (MSI as u32) << 8, 0);
        node.define(POWER + 4, 0, 0x0103);
        node.clearable[POWER / 4 + 1] = 0x8000;
        node.define(MSI, 0x0080_0005 | (EXPRESS as u32) << 8, 0x0071_0000);
        for dword in 1..4 {
            node.define(MSI + 4 * dword, 0, 0xffff_fffc);
        }
        node.define(EXPRESS, 0x0002_0010 | (MSI_X as u32) << 8, 0);
        for control in [0x08, 0x10, 0x28] {
            node.define(EXPRESS + control, 0, 0x7fff);
            node.clearable[(EXPRESS + control) / 4] = 0x000f_0000;
        }
        node.define(MSI_X, 0x0040_0011, 0xc000_0000);
        node
    }

    /// An NVMe controller with a BAR of `length` bytes.
    pub(super) fn nvme(step: Step, length: u64, is_wide: bool) -> Self {
        let mut node = Node::new(step, NVME);
        node.bar(0, length, is_wide);
        node
    }

    /// Something else, with a BAR 2.
    pub(super) fn other(step: Step, length: u64, is_wide: bool) -> Self {
        let mut node = Node::new(step, ETHERNET);
        node.bar(2, length, is_wide);
        node.define(0x30, 0, 0xffff_0001);
        node
    }

    /// A bridge; `port` is its PCI Express type (4 root, 5 up, 6 downstream).
    pub(super) fn bridge(step: Step, port: u32, children: Vec<Node>) -> Self {
        let mut node = Node::new(step, BRIDGE);
        node.children = children;
        node.define(0x0c, 0x0001_0000, 0xff);
        node.define(BUSES, 0, 0x00ff_ffff);
        node.define(0x1c, 0, 0xf0f0);
        node.clearable[7] = 0xf900_0000;
        node.define(0x20, 0, 0xfff0_fff0);
        node.define(0x24, 0x0001_0001, 0xfff0_fff0);
        node.define(0x28, 0, u32::MAX);
        node.define(0x2c, 0, u32::MAX);
        node.define(0x3c, 0x0100, 0x000b_00ff);
        node.clearable[0x3c / 4] = 1 << 26;
        node.registers[EXPRESS / 4] |= port << 20;
        node
    }

    pub(super) fn define(&mut self, register: usize, value: u32, writable: u32) {
        self.registers[register / 4] = value;
        self.writable[register / 4] = writable;
    }

    pub(super) fn bar(&mut self, index: usize, length: u64, is_wide: bool) {
        let mask = !(length - 1);
        let kind = if is_wide { 0b100 } else { 0 };
        self.define(0x10 + 4 * index, kind, mask as u32 & !0xf);
        if is_wide {
            self.define(0x14 + 4 * index, 0, (mask >> 32) as u32);
        }
    }

    pub(super) fn is_bridge(&self) -> bool {
        self.registers[3] >> 16 & 0x7f == 1
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.registers[POWER / 4 + 1] & 3 != 0
    }

    pub(super) fn command(&self) -> u32 {
        self.registers[COMMAND / 4] & 0xffff
    }

    fn write(&mut self, register: usize, value: u32, now: u64) {
        let index = register / 4;
        let before = self.registers[index];
        let writable = self.writable[index];
        let after = before & !writable | value & writable;
        let after = after & !(value & self.clearable[index]);
        let bar = (0x10..if self.is_bridge() { 0x18 } else { 0x28 }).contains(&register);
        if bar && before != after {
            assert_eq!(
                self.command() & 2,
                0,
                "a BAR was changed while it was decoded"
            );
        }
        self.registers[index] = after;
        if register == POWER + 4 && (before ^ after) & 3 != 0 {
            self.change_power(before, now);
        }
    }

    fn change_power(&mut self, before: u32, now: u64) {
        self.busy_until = now + 10;
        if self.is_stuck {
            self.registers[POWER / 4 + 1] = before;
        } else if !self.is_asleep() && !self.keeps {
            for (index, (register, writable)) in
                self.registers.iter_mut().zip(self.writable).enumerate()
            {
                if index != POWER / 4 + 1 {
                    *register &= !writable;
                }
            }
        }
    }
}

impl Model {
    pub(super) fn new(root: Vec<Node>) -> Self {
        Model {
            root: RefCell::new(root),
            now: Cell::new(0),
            accesses: Cell::new(0),
            limit: 3_000_000,
        }
    }

    /// Every register of every function.
    pub(super) fn snapshot(&self) -> Vec<[u32; 64]> {
        fn visit(nodes: &[Node], into: &mut Vec<[u32; 64]>) {
            for node in nodes {
                into.push(node.registers);
                visit(&node.children, into);
            }
        }
        let mut snapshot = Vec::new();
        visit(&self.root.borrow(), &mut snapshot);
        snapshot
    }

    /// Everything must be as in the snapshot.
    pub(super) fn assert_unchanged(&self, before: &[[u32; 64]]) {
        for (number, (before, after)) in before.iter().zip(self.snapshot()).enumerate() {
            for register in 0..64 {
                let (before, after) = (before[register], after[register]);
                let at = register * 4;
                assert!(
                    before == after,
                    "{before:#x} became {after:#x}: register {at:#x} of node {number}"
                );
            }
        }
    }

    /// Does something with a function, if it can be reached.
    fn reach<T>(&self, function: Function, act: impl FnOnce(&mut Node, u64) -> T) -> Option<T> {
        self.accesses.set(self.accesses.get() + 1);
        assert!(self.accesses.get() < self.limit, "this does not end");
        assert!(function.device < 32 && function.function < 8);
        let mut root = self.root.borrow_mut();
        let now = self.now.get();
        let nodes = bus(&mut root, 0, function.bus)?;
        let step = Step {
            device: function.device,
            function: function.function,
        };
        let node = nodes.iter_mut().find(|node| node.step == step)?;
        assert!(
            node.busy_until <= now,
            "{function} was accessed while changing its power state"
        );
        Some(act(node, now))
    }
}

/// The functions on bus `wanted`, from the bus `number` down.
fn bus(nodes: &mut Vec<Node>, number: u8, wanted: u8) -> Option<&mut Vec<Node>> {
    if number == wanted {
        return Some(nodes);
    }
    let mut forwarding = nodes.iter_mut().filter_map(|node| {
        let [_, secondary, subordinate, _] = node.registers[BUSES / 4].to_le_bytes();
        let takes = node.is_bridge()
            && !node.is_asleep()
            && secondary > number
            && (secondary..=subordinate).contains(&wanted);
        takes.then_some((&mut node.children, secondary))
    });
    let (children, secondary) = forwarding.next()?;
    drop(forwarding);
    bus(children, secondary, wanted)
}

impl ConfigSpace for Model {
    fn read32(&self, function: Function, register: u16) -> u32 {
        assert_eq!(register % 4, 0);
        self.reach(function, |node, _| {
            node.registers[usize::from(register) / 4]
        })
        .unwrap_or(u32::MAX)
    }

    fn write32(&self, function: Function, register: u16, value: u32) {
        assert_eq!(register % 4, 0);
        self.reach(function, |node, now| {
            node.write(usize::from(register), value, now)
        });
    }
}

impl Clock for Model {
    fn milliseconds(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }
}
