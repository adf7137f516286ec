//! A model of a PCI hierarchy, for tests: functions with registers, bridges that forward
//! accesses, power states, a clock.
#![allow(
    clippy::cast_possible_truncation,
    reason = "registers are cut from words"
)]

extern crate std;

use std::cell::{Cell, RefCell};
use std::vec::Vec;

use arrayvec::ArrayVec;
use poorwill_clock::Clock;

use super::{ConfigSpace, Function, HostBridge, Step, Window, WindowKind};

/// Command and status.
pub const COMMAND: usize = 0x04;
/// A bridge's bus numbers.
pub const BUSES: usize = 0x18;
/// An expansion ROM's address.
pub const ROM: usize = 0x30;
/// The offset of the power management capability in all functions.
pub const POWER: usize = 0x40;
/// The offset of the MSI capability in all functions.
pub const MSI: usize = 0x50;
/// The offset of the PCI Express capability in all functions.
pub const EXPRESS: usize = 0x70;
/// The offset of the MSI-X capability in all functions.
pub const MSI_X: usize = 0xb0;

/// Class and revision of an NVMe controller.
pub const NVME: u32 = 0x0108_0201;
/// Class and revision of another device.
pub const ETHERNET: u32 = 0x0200_0001;
/// Vendor and device of shared memory.
pub const SHARED_MEMORY: u32 = 0x1110_1af4;
const RAM: u32 = 0x0500_0001;
const BRIDGE: u32 = 0x0604_0001;

/// More accesses than any test needs.
const MAX_ACCESSES: u64 = 3_000_000;

/// A function and, if it is a bridge, the bus below it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its place on the bus.
    pub step: Step,
    /// Configuration space, by dword.
    pub registers: [u32; 64],
    /// The bits that writes change.
    pub writable: [u32; 64],
    /// The bits that a written one clears; they are not in `writable`.
    pub clearable: [u32; 64],
    /// Extended configuration space by dword, from 0x100 on; zero past the end.
    pub extended: Vec<u32>,
    /// The functions on the bus below it.
    pub children: Vec<Node>,
    /// It keeps its registers from D3hot to D0.
    pub keeps: bool,
    /// It stays in D3hot.
    pub is_stuck: bool,
    /// Its registers violate the specification: it never sleeps, can be accessed at any
    /// time, and loses events.
    pub is_odd: bool,
    /// The time until which it must not be accessed.
    busy_until: u64,
}

/// The hierarchy below a host bridge.
#[derive(Debug)]
pub struct Model {
    pub(super) root: RefCell<Vec<Node>>,
    first_bus: u8,
    now: Cell<u64>,
    accesses: Cell<u64>,
}

impl Node {
    /// A function without BARs. `class` is a class and revision other than a bridge's.
    #[must_use]
    pub fn new(step: Step, class: u32) -> Self {
        let mut node = Node {
            step,
            registers: [0; 64],
            writable: [0; 64],
            clearable: [0; 64],
            extended: Vec::new(),
            children: Vec::new(),
            keeps: true,
            is_stuck: false,
            is_odd: false,
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
    #[must_use]
    pub fn nvme(step: Step, length: u64, is_wide: bool) -> Self {
        let mut node = Node::new(step, NVME);
        node.bar(0, length, is_wide);
        node
    }

    /// Shared memory: registers in BAR 0, `length` bytes of memory in BAR 2.
    #[must_use]
    pub fn shared(step: Step, length: u64) -> Self {
        let mut node = Node::new(step, RAM);
        node.define(0x00, SHARED_MEMORY, 0);
        node.bar(0, 0x100, false);
        node.bar(2, length, true);
        node.registers[6] |= 0b1000;
        node
    }

    /// Another device, with a BAR 2.
    #[must_use]
    pub fn other(step: Step, length: u64, is_wide: bool) -> Self {
        let mut node = Node::new(step, ETHERNET);
        node.bar(2, length, is_wide);
        node.define(ROM, 0, 0xffff_0001);
        node
    }

    /// A bridge; `port` is its PCI Express type (4 root, 5 upstream, 6 downstream).
    #[must_use]
    pub fn bridge(step: Step, port: u32, children: Vec<Node>) -> Self {
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

    /// Sets a register, at a multiple of 4, and its writable bits.
    pub fn define(&mut self, register: usize, value: u32, writable: u32) {
        self.registers[register / 4] = value;
        self.writable[register / 4] = writable;
    }

    /// Adds a memory BAR of `length` bytes, a power of two. A wide BAR takes two
    /// registers.
    pub fn bar(&mut self, index: usize, length: u64, is_wide: bool) {
        let mask = !(length - 1);
        let kind = if is_wide { 0b100 } else { 0 };
        self.define(0x10 + 4 * index, kind, mask as u32 & !0xf);
        if is_wide {
            self.define(0x14 + 4 * index, 0, (mask >> 32) as u32);
        }
    }

    /// Adds an SR-IOV capability as the last extended one.
    pub fn virtual_functions(&mut self, are_enabled: bool) {
        // Alternative routing IDs come first, at 0x100; SR-IOV follows at 0x180.
        self.extended = [0x1801_000e, 0].to_vec();
        self.extended.resize(32, 0);
        self.extended
            .extend([0x0001_0010, 0, u32::from(are_enabled)]);
    }

    /// Whether its header is a bridge's.
    #[must_use]
    pub fn is_bridge(&self) -> bool {
        self.registers[3] >> 16 & 0x7f == 1
    }

    /// Whether it is in another power state than D0.
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        !self.is_odd && self.registers[POWER / 4 + 1] & 3 != 0
    }

    /// Its command register.
    #[must_use]
    pub fn command(&self) -> u32 {
        self.registers[COMMAND / 4] & 0xffff
    }

    fn write(&mut self, register: usize, value: u32, now: u64) {
        let index = register / 4;
        let before = self.registers[index];
        let writable = self.writable[index];
        let after = before & !writable | value & writable;
        let after = after & !(value & self.clearable[index]);
        let is_bar = (0x10..if self.is_bridge() { 0x18 } else { 0x28 }).contains(&register);
        assert!(
            !is_bar || before == after || self.is_odd || self.command() & 2 == 0,
            "a BAR was changed while it was decoded"
        );
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
    /// A hierarchy with these functions on bus 0.
    #[must_use]
    pub fn new(root: Vec<Node>) -> Self {
        Model {
            root: RefCell::new(root),
            first_bus: 0,
            now: Cell::new(0),
            accesses: Cell::new(0),
        }
    }

    /// Changes the number of the bus below the host bridge.
    #[must_use]
    pub fn with_first_bus(self, first_bus: u8) -> Self {
        Model { first_bus, ..self }
    }

    /// A copy of all functions.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Node> {
        self.root.borrow().clone()
    }

    /// Asserts that all registers are as in the snapshot.
    ///
    /// # Panics
    ///
    /// If a register differs.
    pub fn assert_unchanged(&self, before: &[Node]) {
        compare(before, &self.root.borrow());
    }

    /// Calls `act` for a function, if it is reachable.
    fn reach<T>(&self, function: Function, act: impl FnOnce(&mut Node, u64) -> T) -> Option<T> {
        self.accesses.set(self.accesses.get() + 1);
        assert!(self.accesses.get() < MAX_ACCESSES, "this does not end");
        assert!(function.device < 32 && function.function < 8);
        let mut root = self.root.borrow_mut();
        let now = self.now.get();
        let nodes = bus(&mut root, self.first_bus, function.bus)?;
        let step = Step {
            device: function.device,
            function: function.function,
        };
        let node = nodes.iter_mut().find(|node| node.step == step)?;
        assert!(
            node.busy_until <= now || node.is_odd,
            "{function} was accessed while changing its power state"
        );
        Some(act(node, now))
    }
}

fn compare(before: &[Node], after: &[Node]) {
    assert_eq!(before.len(), after.len(), "functions came or went");
    for (before, after) in before.iter().zip(after) {
        // An odd function may have other registers where a capability is found, so writes
        // there cannot be undone.
        let registers = if before.is_odd { 0x40 / 4 } else { 64 };
        for register in 0..registers {
            let lost = if before.is_odd {
                before.clearable[register]
            } else {
                0
            };
            let (was, is) = (before.registers[register], after.registers[register]);
            assert!(
                (was ^ is) & !lost == 0,
                "{was:#x} became {is:#x}: register {:#x} of function {}",
                4 * register,
                before.step
            );
        }
        compare(&before.children, &after.children);
    }
}

/// The functions on bus `wanted`, searched from the bus `number` down.
fn bus(nodes: &mut Vec<Node>, number: u8, wanted: u8) -> Option<&mut Vec<Node>> {
    if number == wanted {
        return Some(nodes);
    }
    let forwarding = nodes.iter_mut().find(|node| {
        let [_, secondary, subordinate, _] = node.registers[BUSES / 4].to_le_bytes();
        node.is_bridge()
            && !node.is_asleep()
            && secondary > number
            && (secondary..=subordinate).contains(&wanted)
    })?;
    let secondary = forwarding.registers[BUSES / 4].to_le_bytes()[1];
    bus(&mut forwarding.children, secondary, wanted)
}

impl ConfigSpace for Model {
    fn read32(&self, function: Function, register: u16) -> u32 {
        assert!(register.is_multiple_of(4) && register < 4096);
        self.reach(function, |node, _| {
            let place = usize::from(register) / 4;
            let extended = place.checked_sub(64).filter(|_| !node.is_odd);
            match extended {
                None => node.registers.get(place).copied(),
                Some(place) => Some(node.extended.get(place).copied().unwrap_or(0)),
            }
        })
        .flatten()
        .unwrap_or(u32::MAX)
    }

    fn write32(&self, function: Function, register: u16, value: u32) {
        assert!(register.is_multiple_of(4) && register < 256);
        self.reach(function, |node, now| {
            node.write(usize::from(register), value, now);
        });
    }
}

impl Clock for Model {
    fn milliseconds(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }
}

/// A host bridge with the windows of QEMU's `virt` machine. The upper window has
/// different addresses for the CPU and the bus.
#[must_use]
pub fn host() -> HostBridge {
    let low = Window {
        kind: WindowKind::Memory32,
        prefetchable: false,
        pci_address: 0x4000_0000,
        cpu_address: 0x4000_0000,
        length: 0x4000_0000,
    };
    let high = Window {
        kind: WindowKind::Memory64,
        pci_address: 0x4_0000_0000,
        cpu_address: 0x5_0000_0000,
        length: 0x4_0000_0000,
        ..low
    };
    HostBridge {
        first_bus: 0,
        last_bus: 255,
        windows: ArrayVec::from_iter([low, high]),
    }
}
