//! Another hart's context, which takes the interrupts of a lent hart.

use super::{CLOSED, register, threshold};
use crate::Registers;

/// The context of a lent hart, and a machine-mode context that is to interrupt where that one does.
/// Claims and completions go to the first, which both take from.
#[derive(Clone, Copy, Debug)]
pub struct SharedContext<R> {
    registers: R,
    sources: u32,
    from: u32,
    to: u32,
}

impl<R: Registers<u32>> SharedContext<R> {
    /// The contexts `from` and `to` of a PLIC with these registers. `sources`: the last source.
    pub fn new(registers: R, sources: u32, [from, to]: [u32; 2]) -> Self {
        SharedContext {
            registers,
            sources,
            from,
            to,
        }
    }

    /// Copies enables and threshold.
    pub fn share(&self) {
        for word in 0..=u64::from(self.sources / 32) {
            let enabled = self.registers.read(enables(self.from) + 4 * word);
            self.registers.write(enables(self.to) + 4 * word, enabled);
        }
        let threshold_of_os = self.registers.read(threshold(self.from));
        self.registers.write(threshold(self.to), threshold_of_os);
    }

    /// Closes the second context.
    pub fn close(&self) {
        self.registers.write(threshold(self.to), CLOSED);
        for word in 0..=u64::from(self.sources / 32) {
            self.registers.write(enables(self.to) + 4 * word, 0);
        }
    }

    /// Returns whether a store at an offset may change what [`share`](Self::share) copies.
    pub fn copies(&self, offset: u64) -> bool {
        let own = enables(self.from)..enables(self.from) + register::ENABLE_STRIDE;
        own.contains(&offset) || offset == threshold(self.from)
    }
}

/// Offset of a context's first enable register.
fn enables(context: u32) -> u64 {
    register::ENABLE + u64::from(context) * register::ENABLE_STRIDE
}
