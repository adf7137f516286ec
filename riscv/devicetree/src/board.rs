//! Parts of a tree that people who bring up a board ask for, beside those of
//! [`Machine`](crate::Machine). The firmware does not need them.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

use crate::binding::Binding;
use crate::chosen::stdout_name;
use crate::interrupts::{MACHINE_EXTERNAL, SUPERVISOR_EXTERNAL};
use crate::machine::{MACHINE_SOFTWARE, MACHINE_TIMER};
use crate::node::{
    MAX_DEPTH, can_run_os, hart_interrupts, has_mmu, is_any, is_enabled, is_enabled_hart, phandle,
    reg,
};

/// Known UARTs, timers and PCI host bridges, by `compatible`.
pub const KNOWN_UARTS: [&str; 4] = ["ns16550a", "ns16550", "snps,dw-apb-uart", "sifive,uart0"];
/// See [`KNOWN_UARTS`].
pub const KNOWN_TIMERS: [&str; 3] = ["riscv,clint0", "sifive,clint0", "riscv,aclint-mtimer"];
/// See [`KNOWN_UARTS`].
pub const KNOWN_PCI_HOSTS: [&str; 1] = ["pci-host-ecam-generic"];

/// Whether an OS can start on a hart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HartState {
    /// It can.
    Usable,
    /// The hart parks, as the tree disables it.
    Disabled,
    /// The hart parks, as it has no MMU.
    NoMmu,
    /// The hart parks, as its node has no `reg` or no `interrupt-controller`.
    Incomplete,
}

/// A hart of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardHart {
    /// Hart ID.
    pub id: Option<u64>,
    /// Whether an OS can start on it.
    pub state: HartState,
    /// The tree says that it has an MMU.
    pub has_mmu: bool,
    /// A known controller has its MSIP register.
    pub has_msip: bool,
    /// A known timer has its MTIMECMP register.
    pub has_mtimecmp: bool,
    /// Its machine-mode context of the machine's only PLIC.
    pub machine_context: Option<u32>,
}

impl BoardHart {
    /// Returns whether machine mode could run a program of its own on the hart, if it is enabled: no
    /// OS starts there, and the hart has a timer, IPIs and external interrupts.
    #[must_use]
    pub fn suits_weak_core(&self) -> bool {
        !self.has_mmu && self.has_msip && self.has_mtimecmp && self.machine_context.is_some()
    }
}

/// The purpose of a device without a driver in the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The device that `stdout-path` names.
    Stdout,
    /// Another UART.
    Uart,
    /// A timer of machine mode.
    Timer,
    /// A controller of IPIs for machine mode.
    Ipi,
    /// An interrupt controller of harts.
    Interrupts,
    /// A PCI host bridge.
    PciHost,
    /// A real-time clock.
    Clock,
    /// A watchdog, which may reset the machine.
    Watchdog,
}

/// A node, for people.
#[derive(Clone, Copy, Debug)]
pub struct BoardNode<'t>(FdtNode<'t>);

impl<'t> BoardNode<'t> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'t str {
        self.0.name()
    }

    /// Its `compatible`, most specific first.
    pub fn compatible(&self) -> impl Iterator<Item = &'t str> {
        self.0.compatible().into_iter().flatten()
    }
}

/// The root of a tree, whose `compatible` names the board and its SoC.
#[must_use]
pub fn board<'t>(tree: &Fdt<'t>) -> BoardNode<'t> {
    BoardNode(tree.root())
}

/// The harts of a tree, in its order.
pub fn board_harts<'t>(tree: &Fdt<'t>) -> impl Iterator<Item = BoardHart> + use<'t> {
    let root = tree.root();
    let cpus = root
        .child("cpus")
        .into_iter()
        .flat_map(|cpus| cpus.children());
    // The firmware asks for no name, but a disabled hart has no other sign than its name.
    let is_hart = |node: &FdtNode<'_>| node.name_without_address() == "cpu" || can_run_os(*node);
    let cpus = cpus.filter(is_hart);
    cpus.map(move |cpu| hart(root, cpu))
}

fn hart(root: FdtNode<'_>, cpu: FdtNode<'_>) -> BoardHart {
    let controller = cpu.child("interrupt-controller");
    let state = match is_enabled_hart(cpu) {
        _ if can_run_os(cpu) => HartState::Usable,
        false => HartState::Disabled,
        true if controller.is_none() || reg(cpu, 0).is_none() => HartState::Incomplete,
        true => HartState::NoMmu,
    };
    let mut hart = BoardHart {
        id: reg(cpu, 0).map(|range| range.start),
        state,
        has_mmu: has_mmu(cpu),
        has_msip: false,
        has_mtimecmp: false,
        machine_context: None,
    };
    let Some(controller) = controller.and_then(phandle) else {
        return hart;
    };
    let mut plics = 0;
    walk(root, 0, &mut |node| {
        let names = |interrupt| {
            let mut to = hart_interrupts(node);
            to.position(|pair| pair == (controller, interrupt))
        };
        match Binding::of(node) {
            Some(Binding::Clint) => {
                hart.has_msip |= names(MACHINE_SOFTWARE).is_some();
                hart.has_mtimecmp |= names(MACHINE_TIMER).is_some();
            }
            Some(Binding::AclintMswi) => hart.has_msip |= names(MACHINE_SOFTWARE).is_some(),
            Some(Binding::AclintMtimer) => hart.has_mtimecmp |= names(MACHINE_TIMER).is_some(),
            Some(Binding::Plic) => {
                plics += 1;
                let context = names(MACHINE_EXTERNAL).and_then(|place| u32::try_from(place).ok());
                hart.machine_context = context;
            }
            _ => {}
        }
    });
    hart.machine_context = hart.machine_context.filter(|_| plics == 1);
    hart
}

/// Calls `tell` for each enabled device that the firmware could use if it had a driver for it.
pub fn without_driver<'t>(tree: &Fdt<'t>, tell: &mut dyn FnMut(Purpose, BoardNode<'t>)) {
    let root = tree.root();
    let stdout = stdout_name(root, root.child("chosen")).and_then(|path| find(root, path));
    let stdout = stdout.filter(|node| Binding::of(*node).is_none());
    if let Some(node) = stdout {
        tell(Purpose::Stdout, BoardNode(node));
    }
    let name = stdout.map(|node| node.name());
    walk(root, 0, &mut |node| {
        if Binding::of(node).is_none()
            && Some(node.name()) != name
            && let Some(purpose) = purpose(node)
        {
            tell(purpose, BoardNode(node));
        }
    });
}

/// The purpose of a node without a known binding.
fn purpose(node: FdtNode<'_>) -> Option<Purpose> {
    let takes = |wanted| hart_interrupts(node).any(|(_, interrupt)| interrupt == wanted);
    // Another device's line may have any of these numbers. A controller's `compatible` is of a kind.
    let is_named = |parts: &[&str]| {
        let mut names = node.compatible().into_iter().flatten();
        names.any(|name| parts.iter().any(|part| name.contains(part)))
    };
    match node.name_without_address() {
        _ if is_named(&["clint", "mtimer"]) && takes(MACHINE_TIMER) => Some(Purpose::Timer),
        _ if is_named(&["clint", "mswi"]) && takes(MACHINE_SOFTWARE) => Some(Purpose::Ipi),
        "interrupt-controller" if takes(MACHINE_EXTERNAL) || takes(SUPERVISOR_EXTERNAL) => {
            Some(Purpose::Interrupts)
        }
        "serial" | "uart" => Some(Purpose::Uart),
        "rtc" => Some(Purpose::Clock),
        "watchdog" => Some(Purpose::Watchdog),
        _ => {
            let device_type = node.property("device_type");
            let is_pci = device_type.is_some_and(|kind| kind.value() == b"pci\0");
            // So is a port below it.
            let is_port = is_named(&["pciclass,"]) || node.property("compatible").is_none();
            (is_pci && !is_port).then_some(Purpose::PciHost)
        }
    }
}

/// The node at a path; each name may lack its unit address.
fn find<'t>(root: FdtNode<'t>, path: &str) -> Option<FdtNode<'t>> {
    let mut names = path.split('/').filter(|name| !name.is_empty());
    names.try_fold(root, |node, name| node.child(name))
}

/// Calls `look` for each enabled node below enabled ones, to a depth that the firmware accepts.
fn walk<'t>(above: FdtNode<'t>, depth: u32, look: &mut dyn FnMut(FdtNode<'t>)) {
    let is_left_out = |node: &FdtNode<'_>| {
        ["cpus", "chosen"].contains(&node.name()) || !is_enabled(*node) || is_any(*node, &["cache"])
    };
    for node in above.children().filter(|node| !is_left_out(node)) {
        look(node);
        if depth < MAX_DEPTH {
            walk(node, depth + 1, look);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_known_has_a_binding() {
        for name in KNOWN_UARTS {
            let binding = Binding::named(name);
            assert!(
                matches!(binding, Some(Binding::Uart | Binding::SifiveUart)),
                "{name}"
            );
        }
        for name in KNOWN_TIMERS {
            let binding = Binding::named(name);
            assert!(
                matches!(binding, Some(Binding::Clint | Binding::AclintMtimer)),
                "{name}"
            );
        }
        for name in KNOWN_PCI_HOSTS {
            assert_eq!(Binding::named(name), Some(Binding::PciHost), "{name}");
        }
    }
}
