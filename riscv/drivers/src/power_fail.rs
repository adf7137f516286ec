//! The power-fail line, at an interrupt controller's input that machine mode keeps.

use crate::Registers;
use crate::aplic::{self, register};
use crate::plic::register as plic;

/// DOMAINCFG: interrupts are delivered, as messages (AIA, 4.5.1).
const DELIVERS_MESSAGES: u32 = aplic::INTERRUPT_ENABLE | 1 << 2;

/// SOURCECFG: active while the input is high (AIA, 4.5.2).
const HIGH_LEVEL: u32 = 6;

/// TARGET: where the number of the hart begins (AIA, 4.5.16).
const HART_SHIFT: u32 = 18;

/// The line.
#[derive(Clone, Copy, Debug)]
pub enum PowerFailLine<R> {
    /// Is a source of an APLIC's root domain, which sends messages.
    Aplic {
        /// The domain's registers.
        registers: R,
        /// Number of the source.
        source: u32,
        /// Number of the hart that it is sent to, in the order of the interrupt files.
        hart: u32,
        /// What is sent: the identity in that hart's machine-mode file.
        identity: u32,
    },
    /// Is a source of a PLIC.
    Plic {
        /// The PLIC's registers.
        registers: R,
        /// Number of the source.
        source: u32,
        /// Machine mode's context of the hart that takes it.
        context: u32,
    },
}

impl<R: Registers<u32>> PowerFailLine<R> {
    /// Takes it from the OS, behind whatever the controller was set up for that. It
    /// interrupts nobody yet.
    pub fn start(&self) {
        if let PowerFailLine::Aplic {
            registers, source, ..
        } = self
        {
            // Not delegated, which makes it machine mode's. Early: QEMU's forgets a line
            // that was raised before.
            let of_source = 4 * u64::from(source - 1);
            registers.write(register::SOURCECFG + of_source, HIGH_LEVEL);
        }
    }

    /// Has it interrupt machine mode of its hart; it was [started](PowerFailLine::start).
    pub fn arm(&self) {
        match self {
            PowerFailLine::Aplic {
                registers,
                source,
                hart,
                identity,
            } => {
                let of_source = 4 * u64::from(source - 1);
                let target = hart << HART_SHIFT | identity;
                registers.write(register::TARGET + of_source, target);
                // Of a line that has fallen again nothing is to be left (4.7; QEMU's keeps it).
                registers.write(register::CLRIPNUM, *source);
                registers.write(register::SETIENUM, *source);
                registers.write(register::DOMAINCFG, DELIVERS_MESSAGES);
                // A line that is raised already has no edge to come. Of one that is not, this
                // changes nothing (4.7).
                registers.write(register::SETIPNUM, *source);
            }
            PowerFailLine::Plic {
                registers,
                source,
                context,
            } => {
                // A line that has fallen again is not to interrupt: from here on it latches.
                settle(registers, *source, *context);
                registers.write(crate::plic::threshold(*context), 0);
            }
        }
    }

    /// Whether it is raised now; for as long as it interrupts nobody.
    pub fn is_raised_unarmed(&self) -> bool {
        if let PowerFailLine::Plic {
            registers,
            source,
            context,
        } = self
        {
            settle(registers, *source, *context);
        }
        self.is_raised()
    }

    /// Whether it is raised; on a PLIC, whether it was since it was [armed](Self::arm).
    pub fn is_raised(&self) -> bool {
        let (registers, base, source) = match self {
            PowerFailLine::Aplic {
                registers, source, ..
            } => (registers, register::IN_CLRIP, source),
            PowerFailLine::Plic {
                registers, source, ..
            } => (registers, plic::PENDING, source),
        };
        let word = registers.read(base + 4 * u64::from(source / 32));
        word >> (source % 32) & 1 == 1
    }

    /// Takes the interrupt, where the controller has it to be claimed; says whether it was
    /// this line's. It does not come again until [`arm`](PowerFailLine::arm).
    pub fn claim(&self) -> bool {
        match self {
            // A message comes once.
            PowerFailLine::Aplic { .. } => true,
            PowerFailLine::Plic {
                registers,
                source,
                context,
            } => {
                let claim = crate::plic::threshold(*context) + plic::CLAIM;
                // Never completed, so that the level does not interrupt again.
                registers.read(claim) == *source
            }
        }
    }
}

/// Has the pending bit of a source show its level, of which a PLIC makes a latch: the bit stays
/// until the source is claimed, and comes again once that claim is completed, if the level is
/// still high. A claim that was left open, as by Stop before a reset, is completed with it. The
/// source is enabled for the context then, as nothing else is, but does not interrupt it.
///
/// QEMU 10 looks at a level only as it rises: claimed while it lasts, it would be lost. But
/// there, against the specification, a claim of what the threshold keeps back claims nothing: a
/// line that was raised counts as raised until the machine is switched off.
fn settle(registers: &impl Registers<u32>, source: u32, context: u32) {
    let threshold = crate::plic::threshold(context);
    registers.write(threshold, crate::plic::CLOSED);
    registers.write(plic::PRIORITY + 4 * u64::from(source), 1);
    let enables = plic::ENABLE + u64::from(context) * plic::ENABLE_STRIDE;
    registers.write(enables + 4 * u64::from(source / 32), 1 << (source % 32));
    registers.read(threshold + plic::CLAIM);
    registers.write(threshold + plic::CLAIM, source);
}

#[cfg(test)]
mod tests;
