//! The line by which a power supply signals a power failure.

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use poorwill_memory::PhysRange;
use thiserror::Error;

use crate::hart::Hart;
use crate::interrupts::{Interrupts, MACHINE_EXTERNAL};
use crate::node::{cell, cells, hart_interrupts, phandle, reg};

/// A power-fail line (`poorwill,power-fail`). A machine with such a line has persistent RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerFail {
    /// The interrupt input of the line.
    pub input: PowerFailInput,
    /// Hold-up: microseconds of power after the line is raised.
    pub hold_up_us: u32,
}

impl PowerFail {
    /// Registers of machine mode's context of a PLIC, through which it takes the line: threshold
    /// and claim.
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

/// Offset of a PLIC's contexts, and bytes of each (PLIC 1.0, "Memory Map").
const CONTEXTS: u64 = 0x20_0000;
const CONTEXT_BYTES: u64 = 0x1000;

/// An input of an interrupt controller, which only machine mode uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerFailInput {
    /// A source of the APLIC root domain [`Interrupts::machine_aplics`]`[place]`.
    Aplic {
        /// Index of the domain.
        place: usize,
        /// Number of the source.
        source: u32,
        /// Number by which the APLIC addresses the first hart.
        hart: u32,
    },
    /// A source of the PLIC [`Interrupts::plics`]`[place]`.
    Plic {
        /// Index of the PLIC.
        place: usize,
        /// Number of the source.
        source: u32,
        /// Machine mode's context of the first hart.
        context: u32,
    },
}

/// Why a power-fail node cannot be used.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PowerFailError {
    #[error("the power-fail node has no {0}")]
    Missing(&'static str),
    #[error("the power-fail node's {HOLD_UP} is 0")]
    NoHoldUp,
    /// The line ends neither at an APLIC's root domain nor at a PLIC.
    #[error("the power-fail line must end at a PLIC, or at the root domain of an APLIC")]
    Controller,
    #[error("the power-fail line ends at source {0}, which its controller does not have")]
    Source(u32),
    /// The controller does not interrupt machine mode on the first hart.
    #[error("the power-fail line's controller does not interrupt the first hart in machine mode")]
    FirstHart,
}

const LINE: &str = "interrupts-extended";
const HOLD_UP: &str = "hold-up-us";

pub(crate) const POWER_FAIL: &str = "poorwill,power-fail";

#[derive(Clone, Copy, Debug)]
pub(crate) struct PowerFailNode {
    controller: u32,
    source: u32,
    hold_up_us: u32,
}

impl PowerFailNode {
    /// Reads the node.
    ///
    /// # Errors
    ///
    /// [`PowerFailError`]: a property is missing or zero.
    pub(crate) fn read(node: FdtNode<'_>) -> Result<Self, PowerFailError> {
        let mut cells = cells(node, LINE).into_iter().flatten();
        let mut line = || cells.next().ok_or(PowerFailError::Missing(LINE));
        let (controller, source) = (line()?, line()?);
        match cell(node, HOLD_UP) {
            None => Err(PowerFailError::Missing(HOLD_UP)),
            Some(0) => Err(PowerFailError::NoHoldUp),
            Some(hold_up_us) => Ok(PowerFailNode {
                controller,
                source,
                hold_up_us,
            }),
        }
    }

    /// Resolves the line's controller.
    ///
    /// # Errors
    ///
    /// [`PowerFailError`]: machine mode cannot take the line there.
    pub(crate) fn line(
        self,
        root: FdtNode<'_>,
        interrupts: &Interrupts,
        harts: &[Hart],
    ) -> Result<PowerFail, PowerFailError> {
        let mut aplics = interrupts.machine_aplics.iter();
        let aplic = aplics.position(|aplic| aplic.phandle() == Some(self.controller));
        let input = match aplic {
            Some(place) => self.aplic(place, interrupts, harts)?,
            None => self.plic(root, interrupts, harts)?,
        };
        Ok(PowerFail {
            input,
            hold_up_us: self.hold_up_us,
        })
    }

    /// The line at an APLIC's root domain, which interrupts the first hart through its IMSIC file.
    fn aplic(
        self,
        place: usize,
        interrupts: &Interrupts,
        harts: &[Hart],
    ) -> Result<PowerFailInput, PowerFailError> {
        let aplic = &interrupts.machine_aplics[place];
        let source = self.source_of(aplic.sources)?;
        let file = harts.first().and_then(|first| first.machine_imsic);
        let number = file
            .zip(aplic.imsics)
            .and_then(|(file, [machine, _])| machine.hart_number(file.address));
        match number {
            Some(hart) => Ok(PowerFailInput::Aplic {
                place,
                source,
                hart,
            }),
            None => Err(PowerFailError::FirstHart),
        }
    }

    /// The line at a PLIC with a machine-mode context for the first hart.
    fn plic(
        self,
        root: FdtNode<'_>,
        interrupts: &Interrupts,
        harts: &[Hart],
    ) -> Result<PowerFailInput, PowerFailError> {
        let soc = root.child("soc").map(|soc| soc.children());
        let mut nodes = root.children().chain(soc.into_iter().flatten());
        let node = nodes.find(|node| phandle(*node) == Some(self.controller));
        let place = node.and_then(|node| {
            let base = reg(node, 0)?.start;
            let mut plics = interrupts.plics.iter();
            Some((node, plics.position(|plic| plic.base == base)?))
        });
        let (node, place) = place.ok_or(PowerFailError::Controller)?;
        let source = self.source_of(interrupts.plics[place].sources)?;
        let first = harts
            .first()
            .map(|first| (first.controller, MACHINE_EXTERNAL));
        let mut contexts = (0..).zip(hart_interrupts(node));
        let context = contexts.find(|(_, to)| Some(*to) == first);
        let (context, _) = context.ok_or(PowerFailError::FirstHart)?;
        Ok(PowerFailInput::Plic {
            place,
            source,
            context,
        })
    }

    /// Checks the line's source against the controller's number of sources.
    fn source_of(self, sources: u32) -> Result<u32, PowerFailError> {
        if (1..=sources).contains(&self.source) {
            Ok(self.source)
        } else {
            Err(PowerFailError::Source(self.source))
        }
    }
}
