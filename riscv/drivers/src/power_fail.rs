//! The power-fail line, at machine mode's input of an interrupt controller.

use crate::Registers;
use crate::aplic::{self, register};
use crate::plic::register as plic;

/// DOMAINCFG: interrupts are delivered, as messages (AIA, 4.5.1).
const DELIVERS_MESSAGES: u32 = aplic::INTERRUPT_ENABLE | 1 << 2;

/// SOURCECFG: active while the input is high (AIA, 4.5.2).
const HIGH_LEVEL: u32 = 6;

/// TARGET: lowest bit of the hart number (AIA, 4.5.16).
const HART_SHIFT: u32 = 18;

/// The line.
#[derive(Clone, Copy, Debug)]
pub enum PowerFailLine<R> {
    /// A source of an APLIC's root domain, which sends messages.
    Aplic {
        /// The domain's registers.
        registers: R,
        /// Number of the source.
        source: u32,
        /// Index of the receiving hart, in the order of the interrupt files.
        hart: u32,
        /// The identity in that hart's machine-mode file.
        identity: u32,
    },
    /// A source of a PLIC.
    Plic {
        /// The PLIC's registers.
        registers: R,
        /// Number of the source.
        source: u32,
        /// Machine-mode context of the receiving hart.
        context: u32,
    },
}

impl<R: Registers<u32>> PowerFailLine<R> {
    /// Takes the line from the OS, after the controller was set up for the OS. The line does not
    /// interrupt yet.
    pub fn start(&self) {
        if let PowerFailLine::Aplic {
            registers, source, ..
        } = self
        {
            // Not delegated, so the source is machine mode's. This comes early: QEMU's APLIC
            // forgets a line that was raised before.
            let of_source = 4 * u64::from(source - 1);
            registers.write(register::SOURCECFG + of_source, HIGH_LEVEL);
        }
    }

    /// Lets the line interrupt its hart in machine mode, after [`start`](PowerFailLine::start).
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
                // Clears the pending bit of a line that has fallen again (4.7; QEMU keeps the bit).
                registers.write(register::CLRIPNUM, *source);
                registers.write(register::SETIENUM, *source);
                registers.write(register::DOMAINCFG, DELIVERS_MESSAGES);
                // A line that is already raised causes no edge, so its pending bit is set here. For
                // a line that is not raised this has no effect (4.7).
                registers.write(register::SETIPNUM, *source);
            }
            PowerFailLine::Plic {
                registers,
                source,
                context,
            } => {
                // A line that has fallen again must not interrupt. From here on the PLIC latches
                // the line.
                settle(registers, *source, *context);
                registers.write(crate::plic::threshold(*context), 0);
            }
        }
    }

    /// Returns whether the line is raised now. Only valid while it does not interrupt.
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

    /// Returns whether the line is raised; on a PLIC, whether it was raised since
    /// [`arm`](Self::arm).
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

    /// Takes the interrupt, if the controller needs a claim; returns whether it was this line's. It
    /// does not repeat until [`arm`](PowerFailLine::arm).
    pub fn claim(&self) -> bool {
        match self {
            // A message arrives only once.
            PowerFailLine::Aplic { .. } => true,
            PowerFailLine::Plic {
                registers,
                source,
                context,
            } => {
                let claim = crate::plic::threshold(*context) + plic::CLAIM;
                // The claim is not completed, so the level does not interrupt again.
                registers.read(claim) == *source
            }
        }
    }
}

/// Makes the source's pending bit show its level. A PLIC latches the level: the bit stays until a
/// claim, and returns when the claim is completed while the level is high. A claim that was left
/// open, for example by Stop before a reset, is completed, too. After this only this source is
/// enabled for the context, but the threshold keeps it from interrupting.
///
/// QEMU 10 notices only the rise of a level, so a claim during the high level would lose it. But
/// against the specification, QEMU's claim of a source below the threshold claims nothing. So a
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
