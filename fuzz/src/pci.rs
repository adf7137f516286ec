//! A PCI hierarchy made of an input: functions whose registers behave as such
//! until the input says otherwise.

use std::cell::{Cell, RefCell};

use poorwill_medium::Clock;
use poorwill_medium::pci::{ConfigSpace, Function, HostBridge, Step, Window, WindowKind};

use crate::{Cases, Input};

const COMMAND: usize = 0x04;
const BUSES: usize = 0x18;
/// Where capabilities are in every function.
const POWER: usize = 0x40;
const MSI: usize = 0x50;
const EXPRESS: usize = 0x70;
const MSI_X: usize = 0xb0;

const NVME: u32 = 0x0108_0201;
const ETHERNET: u32 = 0x0200_0001;
const BRIDGE: u32 = 0x0604_0001;

/// Functions at most.
const MAX_NODES: usize = 40;

/// A function and, if it is a bridge, what is behind it.
#[derive(Clone, Debug)]
struct Node {
    step: Step,
    registers: [u32; 64],
    /// Bits that writes change.
    writable: [u32; 64],
    /// Bits that writing ones clears.
    clearable: [u32; 64],
    children: Vec<Node>,
    /// Registers are not where the specification has them: events may get lost.
    is_odd: bool,
    /// Stays in D3hot.
    is_stuck: bool,
    busy_until: u64,
}

/// Everything below a host bridge, and a clock.
#[derive(Debug)]
pub struct Model {
    root: RefCell<Vec<Node>>,
    first_bus: u8,
    now: Cell<u64>,
    accesses: Cell<u64>,
}

/// Accesses that nothing here takes.
const MAX_ACCESSES: u64 = 3_000_000;

impl Node {
    fn new(input: &mut Input<'_>, step: Step, depth: u32, left: &mut usize) -> Self {
        let class = match input.below(if depth > 0 { 4 } else { 2 }) {
            0 => NVME,
            1 => ETHERNET,
            _ => BRIDGE,
        };
        let mut node = Node {
            step,
            registers: [0; 64],
            writable: [0; 64],
            clearable: [0; 64],
            children: Vec::new(),
            is_odd: false,
            is_stuck: false,
            busy_until: 0,
        };
        node.define_common(class);
        if class == BRIDGE {
            node.define_bridge(input);
            node.children = hierarchy(input, depth - 1, left);
        } else {
            node.define_bars(input);
        }
        node.configure(input);
        node.corrupt(input);
        node
    }

    fn define(&mut self, register: usize, value: u32, writable: u32) {
        self.registers[register / 4] = value;
        self.writable[register / 4] = writable;
    }

    fn define_common(&mut self, class: u32) {
        self.define(0x00, 0x0010_1b36, 0);
        self.define(COMMAND, 0x0010_0000, 0x0547);
        self.clearable[COMMAND / 4] = 0xf900_0000;
        self.define(0x08, class, 0);
        self.define(0x0c, 0, 0xff);
        self.define(0x34, POWER as u32, 0);
        self.define(0x3c, 0x0100, 0xff);
        self.define(POWER, 0x0003_0001 | (MSI as u32) << 8, 0);
        self.define(POWER + 4, 0, 0x0103);
        self.clearable[POWER / 4 + 1] = 0x8000;
        self.define(MSI, 0x0080_0005 | (EXPRESS as u32) << 8, 0x0071_0000);
        for dword in 1..4 {
            self.define(MSI + 4 * dword, 0, 0xffff_fffc);
        }
        self.define(EXPRESS, 0x0002_0010 | (MSI_X as u32) << 8, 0);
        for control in [0x08, 0x10, 0x28] {
            self.define(EXPRESS + control, 0, 0x7fff);
            self.clearable[(EXPRESS + control) / 4] = 0x000f_0000;
        }
        self.define(MSI_X, 0x0040_0011, 0xc000_0000);
    }

    fn define_bridge(&mut self, input: &mut Input<'_>) {
        self.define(0x0c, 0x0001_0000, 0xff);
        self.define(BUSES, 0, 0x00ff_ffff);
        self.define(0x1c, 0, 0xf0f0);
        self.clearable[7] = 0xf900_0000;
        self.define(0x20, 0, 0xfff0_fff0);
        self.define(0x24, 0x0001_0001, 0xfff0_fff0);
        self.define(0x28, 0, u32::MAX);
        self.define(0x2c, 0, u32::MAX);
        self.define(0x3c, 0x0100, 0x000b_00ff);
        self.clearable[0x3c / 4] = 1 << 26;
        self.registers[EXPRESS / 4] |= [4, 5, 6][input.below(3) as usize] << 20;
    }

    fn define_bars(&mut self, input: &mut Input<'_>) {
        let mask = !((0x1000u64 << input.below(24)) - 1);
        let is_wide = input.one_in(2);
        self.define(0x10, if is_wide { 0b100 } else { 0 }, mask as u32 & !0xf);
        if is_wide {
            self.define(0x14, 0, (mask >> 32) as u32);
        }
        self.define(0x30, 0, 0xffff_0001);
    }

    /// What an OS may have left: addresses, bus numbers, sleep, events.
    fn configure(&mut self, input: &mut Input<'_>) {
        if input.one_in(2) {
            return;
        }
        let places = [COMMAND, 0x10, 0x14, BUSES, 0x20, 0x24, 0x28, 0x2c, 0x30];
        for place in places.into_iter().chain([MSI, MSI + 4, MSI_X]) {
            let writable = self.writable[place / 4];
            let value = match (place, input.below(4)) {
                (_, 0) => 0,
                (BUSES, 1) => (1 + input.below(4) as u32) << 8 | (input.below(9) as u32) << 16,
                (0x10 | 0x20, 1) => 0x4000_4000 | (input.below(64) as u32) << 20,
                _ => input.any(),
            };
            self.registers[place / 4] = self.registers[place / 4] & !writable | value & writable;
        }
        if input.one_in(3) {
            self.registers[POWER / 4 + 1] |= 3;
        }
        if input.one_in(3) {
            for (register, clearable) in self.registers.iter_mut().zip(self.clearable) {
                *register |= clearable & input.any::<u32>();
            }
        }
    }

    /// Registers as no sane device has them.
    fn corrupt(&mut self, input: &mut Input<'_>) {
        if !input.one_in(3) {
            return;
        }
        self.is_stuck = input.one_in(6);
        self.is_odd = true;
        for _ in 0..=input.below(4) {
            let places = [0x00, 0x08, 0x0c, 0x10, 0x14, 0x18, 0x20, 0x24, 0x34];
            let place = match input.below(3) {
                0 => places[input.below(places.len() as u64) as usize],
                1 => [POWER, MSI, EXPRESS, MSI_X, POWER + 4][input.below(5) as usize],
                _ => 4 * input.below(64) as usize,
            };
            let index = place / 4;
            match input.below(3) {
                0 => self.registers[index] = input.any(),
                1 => self.registers[index] ^= 1 << input.below(32),
                // Elsewhere, no device keeps what nobody may write.
                _ if place == 0x10 || place == 0x14 => self.writable[index] = input.any(),
                _ => {}
            }
        }
    }

    fn is_bridge(&self) -> bool {
        self.registers[3] >> 16 & 0x7f == 1
    }

    fn is_asleep(&self) -> bool {
        !self.is_odd && self.registers[POWER / 4 + 1] & 3 != 0
    }

    fn write(&mut self, register: usize, value: u32, now: u64) {
        let index = register / 4;
        let before = self.registers[index];
        let writable = self.writable[index];
        let after = before & !writable | value & writable;
        let after = after & !(value & self.clearable[index] & !writable);
        let is_bar = (0x10..if self.is_bridge() { 0x18 } else { 0x28 }).contains(&register);
        assert!(
            !is_bar || before == after || self.is_odd || self.registers[1] & 2 == 0,
            "a BAR was changed while it was decoded"
        );
        self.registers[index] = after;
        if register == POWER + 4 && (before ^ after) & 3 != 0 {
            self.busy_until = now + 10;
            if self.is_stuck {
                self.registers[index] = before;
            }
        }
    }
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
            nodes.push(Node::new(input, step, depth, left));
        }
        if functions > 1 {
            nodes[first].registers[3] |= 1 << 23;
        }
    }
    nodes
}

/// What all functions' registers hold.
#[derive(Debug)]
pub struct Snapshot(Vec<Node>);

impl Model {
    /// A hierarchy below a host bridge whose first bus this is.
    #[must_use]
    pub fn new(input: &mut Input<'_>, first_bus: u8) -> Self {
        let depth = input.below(9) as u32;
        let mut left = MAX_NODES;
        Model {
            root: RefCell::new(hierarchy(input, depth, &mut left)),
            first_bus,
            now: Cell::new(0),
            accesses: Cell::new(0),
        }
    }

    /// What registers hold now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.root.borrow().clone())
    }

    /// Everything must be as in the snapshot, but for `cut`: it may not be a
    /// bus master any more.
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn assert_unchanged(&self, before: &Snapshot, cut: bool) {
        compare(&before.0, &self.root.borrow(), cut);
    }

    /// Does something with a function, if it can be reached.
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

fn compare(before: &[Node], after: &[Node], cut: bool) {
    for (before, after) in before.iter().zip(after) {
        // An odd function's capabilities may be found where other registers are:
        // what is written there cannot be put back.
        let registers = if before.is_odd { 0x40 / 4 } else { 64 };
        for register in 0..registers {
            let mut kept = u32::MAX;
            if before.is_odd {
                kept &= !before.clearable[register];
            }
            let is_controller = before.registers[2] >> 8 == NVME >> 8;
            if cut && register == COMMAND / 4 && is_controller {
                kept &= !4;
            }
            let (before, after) = (before.registers[register], after.registers[register]);
            assert!(
                (before ^ after) & kept == 0,
                "{before:#x} became {after:#x}: register {:#x}",
                4 * register
            );
        }
        compare(&before.children, &after.children, cut);
    }
}

/// The functions on bus `wanted`, from the bus `number` down.
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
        let index = usize::from(register) / 4;
        self.reach(function, |node, _| node.registers.get(index).copied())
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

/// A host bridge: the one of QEMU's `virt`, or one that the input makes.
#[must_use]
pub fn host(input: &mut Input<'_>) -> HostBridge {
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
    let mut host = HostBridge {
        first_bus: 0,
        last_bus: 255,
        windows: [low, high].into_iter().collect(),
    };
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
