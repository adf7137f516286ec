//! Registers of the interrupt controllers that an OS programs.

use poorwill_memory::PhysRange;

use crate::interrupts::{Aplic, Plic};
use crate::own_size;

impl Plic {
    /// Its registers, up to those of the last known context.
    #[must_use]
    pub fn registers(&self) -> PhysRange {
        let contexts = self.contexts.iter().chain(&self.machine_contexts);
        let last = contexts.max().copied().unwrap_or(0);
        PhysRange::new(self.base, own_size::plic(u64::from(last) + 1))
    }
}

impl Aplic {
    /// Its registers, up to those of the last known hart.
    #[must_use]
    pub fn registers(&self) -> PhysRange {
        let last = self.harts.iter().max().copied().unwrap_or(0);
        PhysRange::new(self.base, own_size::aplic(u64::from(last) + 1))
    }
}
