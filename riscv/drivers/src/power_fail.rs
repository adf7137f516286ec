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
                let source = u64::from(*source);
                registers.write(plic::PRIORITY + 4 * source, 1);
                let enables = plic::ENABLE + u64::from(*context) * plic::ENABLE_STRIDE;
                registers.write(enables + 4 * (source / 32), 1 << (source % 32));
                registers.write(crate::plic::threshold(*context), 0);
            }
        }
    }

    /// Whether it is raised now.
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, Default)]
    struct Model(RefCell<BTreeMap<u64, u32>>);

    impl Registers<u32> for Model {
        fn read(&self, offset: u64) -> u32 {
            self.0.borrow().get(&offset).copied().unwrap_or(0)
        }

        fn write(&self, offset: u64, value: u32) {
            self.0.borrow_mut().insert(offset, value);
        }
    }

    #[test]
    fn an_aplic_sends_it_to_one_hart() {
        let registers = Model::default();
        let line = PowerFailLine::Aplic {
            registers: &registers,
            source: 60,
            hart: 3,
            identity: 2,
        };
        line.start();
        assert_eq!(registers.0.borrow().len(), 1);
        line.arm();
        let written = registers.0.borrow().clone();
        let expected = [
            (0, 0x104),
            (4 * 60, 6),
            (0x1cdc, 60),
            (0x1edc, 60),
            (0x3000 + 4 * 60, 3 << 18 | 2),
        ];
        assert_eq!(written, BTreeMap::from(expected));
        assert!(!line.is_raised());
        registers.write(0x1d04, 1 << 28);
        assert!(line.is_raised() && line.claim());
    }

    #[test]
    fn a_plic_has_it_claimed_in_machine_modes_context() {
        let registers = Model::default();
        let line = PowerFailLine::Plic {
            registers: &registers,
            source: 60,
            context: 4,
        };
        line.arm();
        let written = registers.0.borrow().clone();
        let expected = [(4 * 60, 1), (0x2204, 1 << 28), (0x20_4000, 0)];
        assert_eq!(written, BTreeMap::from(expected));
        registers.write(0x20_4004, 7);
        assert!(!line.claim(), "another source");
        registers.write(0x20_4004, 60);
        assert!(line.claim());
        registers.write(0x1004, 1 << 28);
        assert!(line.is_raised());
    }
}
