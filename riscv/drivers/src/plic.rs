//! PLIC (RISC-V Platform-Level Interrupt Controller 1.0).

use arrayvec::ArrayVec;
use poorwill_devicetree::{self as devicetree, MAX_HARTS, MAX_MACHINE_CONTEXTS};

use crate::{Keeper, Registers};

mod shared_context;

pub use shared_context::SharedContext;

/// Register offsets (PLIC specification, chapter 3, "Memory Map").
pub(crate) mod register {
    use poorwill_devicetree::Plic;

    pub(crate) const PRIORITY: u64 = 0;
    pub(crate) const PENDING: u64 = 0x1000;
    pub(crate) const ENABLE: u64 = Plic::ENABLES;
    pub(crate) const ENABLE_STRIDE: u64 = Plic::ENABLE_STRIDE;
    pub(super) const THRESHOLD: u64 = 0x20_0000;
    pub(super) const CONTEXT_STRIDE: u64 = 0x1000;
    /// Relative to a context's threshold.
    pub(crate) const CLAIM: u64 = 4;
}

/// A PLIC.
#[derive(Debug)]
pub struct Plic<R> {
    registers: R,
    /// Number of the last source; the first is 1.
    sources: u32,
    /// S-mode contexts of the harts that run the OS.
    contexts: ArrayVec<u32, MAX_HARTS>,
    /// Machine-mode contexts of all cores.
    machine_contexts: ArrayVec<u32, MAX_MACHINE_CONTEXTS>,
}

/// The highest threshold; a PLIC keeps only the bits for its levels.
pub(crate) const CLOSED: u32 = u32::MAX;

impl<R: Registers<u32>> Plic<R> {
    /// The PLIC in `described`, with its registers.
    pub fn new(registers: R, described: &devicetree::Plic) -> Self {
        Plic {
            registers,
            sources: described.sources,
            contexts: described.contexts.clone(),
            machine_contexts: described.machine_contexts.clone(),
        }
    }

    /// Sets the thresholds of the OS's contexts to 0 ("Priority Thresholds"), which Linux expects
    /// for its boot hart. Machine mode's contexts get no source and the highest threshold, so it
    /// takes no interrupt from here.
    ///
    /// Completes open claims. A hart may have claimed a source before a reset, and the source would
    /// never interrupt again ("Interrupt Completion").
    pub fn start(&self) {
        self.complete_all();
        for context in &self.machine_contexts {
            for enable in self.enables(*context) {
                self.registers.write(enable, 0);
            }
            self.registers.write(threshold(*context), CLOSED);
        }
        for context in &self.contexts {
            self.registers.write(threshold(*context), 0);
        }
    }

    /// Completes all claims at a context. All sources are enabled there, since a PLIC ignores the
    /// completion of a source that the context has not enabled. A completion without a claim has no
    /// effect.
    fn complete_all(&self) {
        let mut contexts = self.machine_contexts.iter().chain(&self.contexts);
        let Some(context) = contexts.next() else {
            return;
        };
        self.registers.write(threshold(*context), CLOSED);
        for enable in self.enables(*context) {
            self.registers.write(enable, u32::MAX);
        }
        for source in 1..=self.sources {
            self.registers
                .write(threshold(*context) + register::CLAIM, source);
        }
        for enable in self.enables(*context) {
            self.registers.write(enable, 0);
        }
    }
}

impl<R> Plic<R> {
    fn enables(&self, context: u32) -> impl Iterator<Item = u64> + use<R> {
        let first = register::ENABLE + u64::from(context) * register::ENABLE_STRIDE;
        (0..=u64::from(self.sources / 32)).map(move |word| first + 4 * word)
    }
}

pub(crate) fn threshold(context: u32) -> u64 {
    register::THRESHOLD + u64::from(context) * register::CONTEXT_STRIDE
}

impl<R: Registers<u32>> Keeper for Plic<R> {
    type Word = u32;
    const TAG: u32 = u32::from_le_bytes(*b"PLIC");
    const VERSION: u16 = 1;

    fn registers(&self) -> &impl Registers<u32> {
        &self.registers
    }

    /// Priorities, then enables and threshold of each context. Pending bits are not kept, because
    /// devices raise them again. No claim is open while the OS sleeps.
    fn offsets(&self) -> impl Iterator<Item = u64> {
        let priorities =
            (1..=u64::from(self.sources)).map(|source| register::PRIORITY + 4 * source);
        let contexts = self
            .contexts
            .iter()
            .flat_map(|context| self.enables(*context).chain([threshold(*context)]));
        priorities.chain(contexts)
    }
}

#[cfg(test)]
pub(crate) mod model;

#[cfg(test)]
mod tests;
