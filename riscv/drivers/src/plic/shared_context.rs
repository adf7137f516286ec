//! Another hart's context, which takes the interrupts of lent harts.

use arrayvec::ArrayVec;
use poorwill_devicetree::MAX_LENT;

use super::{CLOSED, register, threshold};
use crate::Registers;

/// The contexts of the OS's harts, and a machine-mode context that is to interrupt where one of them
/// does. Claims and completions go to the OS's contexts.
#[derive(Clone, Debug)]
pub struct SharedContext<R> {
    registers: R,
    sources: u32,
    from: ArrayVec<u32, MAX_LENT>,
    to: u32,
}

impl<R: Registers<u32>> SharedContext<R> {
    /// The contexts `from`, each by the place of its hart, and `to` of a PLIC with these registers.
    /// `sources`: the last source.
    pub fn new(registers: R, sources: u32, from: ArrayVec<u32, MAX_LENT>, to: u32) -> Self {
        SharedContext {
            registers,
            sources,
            from,
            to,
        }
    }

    /// Enables each source of a lent context, at the least threshold of them.
    pub fn share(&self, is_lent: impl Fn(usize) -> bool) {
        let lent = || {
            self.from
                .iter()
                .enumerate()
                .filter(|(place, _)| is_lent(*place))
        };
        let read = |offset| self.registers.read(offset);
        for word in 0..=u64::from(self.sources / 32) {
            let enabled = lent().map(|(_, context)| read(enables(*context) + 4 * word));
            let enabled = enabled.fold(0, |all, enabled| all | enabled);
            self.registers.write(enables(self.to) + 4 * word, enabled);
        }
        let least = lent().map(|(_, context)| read(threshold(*context))).min();
        (self.registers).write(threshold(self.to), least.unwrap_or(CLOSED));
    }

    /// Closes the machine-mode context.
    pub fn close(&self) {
        self.registers.write(threshold(self.to), CLOSED);
        for word in 0..=u64::from(self.sources / 32) {
            self.registers.write(enables(self.to) + 4 * word, 0);
        }
    }

    /// Returns whether a pending source interrupts the hart at a place ("Interrupt Notifications").
    pub fn interrupts(&self, place: usize) -> bool {
        let Some(context) = self.from.get(place) else {
            return false;
        };
        let read = |offset| self.registers.read(offset);
        let least = read(threshold(*context));
        (0..=self.sources / 32).any(|word| {
            let at = 4 * u64::from(word);
            let due = read(register::PENDING + at) & read(enables(*context) + at);
            let sources = (0..32).filter(|bit| due >> bit & 1 != 0);
            let mut sources = sources.map(|bit| u64::from(32 * word + bit));
            sources.any(|source| read(register::PRIORITY + 4 * source) > least)
        })
    }

    /// Returns whether a store at an offset may change what [`share`](Self::share) copies.
    pub fn copies(&self, offset: u64) -> bool {
        self.from.iter().any(|context| {
            let own = enables(*context)..enables(*context) + register::ENABLE_STRIDE;
            own.contains(&offset) || offset == threshold(*context)
        })
    }
}

/// Offset of a context's first enable register.
fn enables(context: u32) -> u64 {
    register::ENABLE + u64::from(context) * register::ENABLE_STRIDE
}
