use arrayvec::ArrayVec;
use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use poorwill_memory::PhysRange;

use crate::hart::{Hart, find_hart};
use crate::node::{cell, first_cells, hart_interrupts, phandle, reg};

/// Machine-level external interrupt of a hart.
const MACHINE_EXTERNAL: u32 = 11;
/// Supervisor-level external interrupt of a hart.
const SUPERVISOR_EXTERNAL: u32 = 9;

/// The interrupt controllers of a machine: a PLIC, or an APLIC with or without
/// IMSICs (RISC-V Advanced Interrupt Architecture 1.0).
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    /// The PLIC.
    pub plic: Option<Plic>,
    /// The APLIC's root domain, machine mode's.
    pub machine_aplic: Option<Aplic>,
    /// The APLIC domain that the OS uses.
    pub os_aplic: Option<Aplic>,
    /// Machine mode's IMSIC files.
    pub machine_imsic: Option<ImsicLayout>,
    /// The OS's IMSIC files.
    pub os_imsic: Option<ImsicLayout>,
}

/// A PLIC (RISC-V Platform-Level Interrupt Controller 1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plic {
    /// Address of its registers.
    pub base: u64,
    /// Number of the last source; the first is 1.
    pub sources: u32,
}

/// One domain of an APLIC (AIA, chapter 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aplic {
    /// Address of its registers.
    pub base: u64,
    /// Number of the last source; the first is 1.
    pub sources: u32,
    /// Whether it sends message-signalled interrupts to IMSICs.
    pub sends_msi: bool,
    /// Sources handed down, as (phandle of a child domain, first, last).
    pub delegated: ArrayVec<(u32, u32, u32), 4>,
    /// Whether devices name a source with the mode of its trigger.
    pub(crate) takes_triggers: bool,
    phandle: u32,
    children: ArrayVec<u32, 4>,
}

impl Aplic {
    fn read(node: FdtNode<'_>) -> Option<Self> {
        let ranges = ["riscv,delegation", "riscv,delegate"]
            .into_iter()
            .map(|name| first_cells::<12>(node, name))
            .find(|cells| !cells.is_empty())
            .unwrap_or_default();
        Some(Aplic {
            base: reg(node, 0)?.start,
            sources: cell(node, "riscv,num-sources")?.min(1023),
            sends_msi: node.property("msi-parent").is_some(),
            delegated: ranges
                .as_chunks::<3>()
                .0
                .iter()
                .map(|[a, b, c]| (*a, *b, *c))
                .collect(),
            takes_triggers: cell(node, "#interrupt-cells") == Some(2),
            phandle: phandle(node).unwrap_or(0),
            children: first_cells(node, "riscv,children"),
        })
    }

    /// Its phandle, if it has one.
    pub(crate) fn phandle(&self) -> Option<u32> {
        Some(self.phandle).filter(|phandle| *phandle != 0)
    }

    /// The number by which this domain's SOURCECFG registers name the child
    /// domain with the given phandle.
    #[must_use]
    pub fn child_index(&self, phandle: u32) -> Option<u32> {
        self.children
            .iter()
            .position(|child| *child == phandle)
            .and_then(|index| u32::try_from(index).ok())
    }
}

/// Where the interrupt files of one privilege level lie (AIA, section 3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImsicLayout {
    /// Address of the first hart's file.
    pub base: u64,
    /// Interrupt identities of a file.
    pub identities: u32,
    /// log2 of the pages that one hart's files take.
    pub guest_bits: u32,
    /// Bits of address that number harts.
    pub hart_bits: u32,
    /// Bits of address that number groups of harts.
    pub group_bits: u32,
    /// Lowest bit of the group number.
    pub group_shift: u32,
}

impl Interrupts {
    pub(crate) fn take_plic(&mut self, node: FdtNode<'_>, harts: &mut [Hart]) {
        let (Some(range), Some(sources)) = (reg(node, 0), cell(node, "riscv,ndev")) else {
            return;
        };
        for (context, (controller, interrupt)) in (0..).zip(hart_interrupts(node)) {
            if let (SUPERVISOR_EXTERNAL, Some(hart)) = (interrupt, find_hart(harts, controller)) {
                hart.plic_context = Some(context);
            }
        }
        self.plic = Some(Plic {
            base: range.start,
            sources: sources.min(1023),
        });
    }

    pub(crate) fn take_aplic<const N: usize>(
        &mut self,
        node: FdtNode<'_>,
        harts: &mut [Hart],
        machine_only: &mut ArrayVec<PhysRange, N>,
    ) {
        let Some(aplic) = Aplic::read(node) else {
            return;
        };
        if aplic.children.is_empty() {
            for (index, (controller, interrupt)) in (0..).zip(hart_interrupts(node)) {
                if let (SUPERVISOR_EXTERNAL, Some(hart)) = (interrupt, find_hart(harts, controller))
                {
                    hart.external_index = Some(index);
                }
            }
            self.os_aplic = Some(aplic);
        } else {
            let _ = reg(node, 0).map(|range| machine_only.try_push(range));
            self.machine_aplic = Some(aplic);
        }
    }

    pub(crate) fn take_imsics<const N: usize>(
        &mut self,
        node: FdtNode<'_>,
        harts: &mut [Hart],
        machine_only: &mut ArrayVec<PhysRange, N>,
    ) {
        let (Some(range), Some(identities)) = (reg(node, 0), cell(node, "riscv,num-ids")) else {
            return;
        };
        let files = u32::try_from(hart_interrupts(node).count()).unwrap_or(u32::MAX);
        let layout = ImsicLayout {
            base: range.start,
            identities: identities.min(2047),
            guest_bits: cell(node, "riscv,guest-index-bits").unwrap_or(0).min(7),
            hart_bits: cell(node, "riscv,hart-index-bits")
                .unwrap_or_else(|| files.max(1).next_power_of_two().ilog2()),
            group_bits: cell(node, "riscv,group-index-bits").unwrap_or(0),
            group_shift: cell(node, "riscv,group-index-shift").unwrap_or(24),
        };
        if !hart_interrupts(node).any(|(_, interrupt)| interrupt == MACHINE_EXTERNAL) {
            self.os_imsic = Some(layout);
            return;
        }
        for (place, (controller, _)) in (0u64..).zip(hart_interrupts(node)) {
            if let Some(hart) = find_hart(harts, controller) {
                let offset = place << (12 + layout.guest_bits);
                hart.machine_imsic = range.start.checked_add(offset);
            }
        }
        let _ = machine_only.try_push(range);
        self.machine_imsic = Some(layout);
    }

    /// Keeps of the OS's APLIC domains the one that the root hands sources to,
    /// and turns the phandles of the delegation into child numbers.
    pub(crate) fn link_domains(&mut self) {
        let (Some(root), Some(os)) = (&mut self.machine_aplic, &self.os_aplic) else {
            return;
        };
        root.delegated.retain(|(child, _, _)| *child == os.phandle);
        let index = root.child_index(os.phandle).unwrap_or(0);
        for entry in &mut root.delegated {
            entry.0 = index;
        }
    }
}

/// Whether the node is an interrupt controller that only machine mode uses.
pub(crate) fn is_machine_level(node: FdtNode<'_>) -> bool {
    node.property("riscv,children").is_some()
        || hart_interrupts(node).any(|(_, interrupt)| interrupt == MACHINE_EXTERNAL)
}
