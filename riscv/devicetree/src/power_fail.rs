//! The line by which a power supply says that the power fails.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use poorwill_memory::PhysRange;

use crate::hart::Hart;
use crate::interrupts::{Interrupts, MACHINE_EXTERNAL};
use crate::node::{cell, cells, hart_interrupts, phandle, reg};

/// A power-fail line (`poorwill,power-fail`). A machine that has one has RAM that is
/// persistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerFail {
    /// Where the line ends.
    pub input: PowerFailInput,
    /// Microseconds for which the power lasts once the line is raised.
    pub hold_up_us: u32,
}

impl PowerFail {
    /// The registers of machine mode's context of a PLIC, by which it takes the line: its
    /// threshold and its claims.
    pub(crate) fn context(&self, interrupts: &Interrupts) -> Option<PhysRange> {
        match self.input {
            PowerFailInput::Aplic { .. } => None,
            PowerFailInput::Plic { place, context, .. } => {
                let base = interrupts.plics[place].base;
                let offset = CONTEXTS + u64::from(context) * CONTEXT_BYTES;
                Some(PhysRange::new(base.checked_add(offset)?, CONTEXT_BYTES))
            }
        }
    }
}

/// Where a PLIC's contexts begin, and bytes of each (PLIC 1.0, "Memory Map").
const CONTEXTS: u64 = 0x20_0000;
const CONTEXT_BYTES: u64 = 0x1000;

/// An input of an interrupt controller that machine mode has to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerFailInput {
    /// A source of the APLIC root domain with that place in
    /// [`Interrupts::machine_aplics`].
    Aplic {
        /// Place of the domain.
        place: usize,
        /// Number of the source.
        source: u32,
    },
    /// A source of the PLIC with that place in [`Interrupts::plics`].
    Plic {
        /// Place of the PLIC.
        place: usize,
        /// Number of the source.
        source: u32,
        /// Machine mode's context of the first hart.
        context: u32,
    },
}

/// The node's binding.
pub(crate) const POWER_FAIL: &str = "poorwill,power-fail";

/// What its node says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerFailNode {
    controller: u32,
    source: u32,
    hold_up_us: u32,
}

impl PowerFailNode {
    /// `None` without the properties that say where the line ends and what is behind it.
    pub(crate) fn read(node: FdtNode<'_>) -> Option<Self> {
        let mut cells = cells(node, "interrupts-extended")?;
        Some(PowerFailNode {
            controller: cells.next()?,
            source: cells.next()?,
            hold_up_us: cell(node, "hold-up-us").filter(|us| *us != 0)?,
        })
    }

    /// The line, if it ends where machine mode can take it.
    pub(crate) fn line(
        self,
        root: FdtNode<'_>,
        interrupts: &Interrupts,
        harts: &[Hart],
    ) -> Option<PowerFail> {
        let (controller, source) = (self.controller, self.source);
        Some(PowerFail {
            input: input(root, interrupts, harts, controller, source)?,
            hold_up_us: self.hold_up_us,
        })
    }
}

fn input(
    root: FdtNode<'_>,
    interrupts: &Interrupts,
    harts: &[Hart],
    controller: u32,
    source: u32,
) -> Option<PowerFailInput> {
    let mut aplics = interrupts.machine_aplics.iter();
    if let Some(place) = aplics.position(|aplic| aplic.phandle() == Some(controller)) {
        let is_there = (1..=interrupts.machine_aplics[place].sources).contains(&source);
        return is_there.then_some(PowerFailInput::Aplic { place, source });
    }
    let soc = root.child("soc").map(|soc| soc.children());
    let mut nodes = root.children().chain(soc.into_iter().flatten());
    let node = nodes.find(|node| phandle(*node) == Some(controller))?;
    let base = reg(node, 0)?.start;
    let place = (interrupts.plics.iter()).position(|plic| plic.base == base)?;
    let first = (harts.first()?.controller, MACHINE_EXTERNAL);
    let (context, _) = (0..)
        .zip(hart_interrupts(node))
        .find(|(_, to)| *to == first)?;
    let is_there = (1..=interrupts.plics[place].sources).contains(&source);
    is_there.then_some(PowerFailInput::Plic {
        place,
        source,
        context,
    })
}
