//! Registers of interrupt controllers that machine mode mediates: it makes the OS's accesses itself.

use poorwill_memory::PhysRange;

use crate::interrupts::Plic;
use crate::machine::Machine;
use crate::power_fail::PowerFailInput;

/// Bytes of the priority of a PLIC's source; these begin at the PLIC's base.
const PRIORITY_BYTES: u64 = 4;

impl Plic {
    /// Offset of the enable registers (PLIC 1.0, "Memory Map").
    pub const ENABLES: u64 = 0x2000;

    /// Bytes of a context's enable registers.
    pub const ENABLE_STRIDE: u64 = 0x80;

    /// Addresses of the enable registers of all contexts.
    #[must_use]
    pub fn enables(&self) -> PhysRange {
        let all = self.contexts.iter().chain(&self.machine_contexts);
        let count = all.max().map_or(0, |last| u64::from(*last) + 1);
        PhysRange::new(
            self.base.saturating_add(Self::ENABLES),
            count * Self::ENABLE_STRIDE,
        )
    }

    /// Address of a source's priority.
    #[must_use]
    pub fn priority(&self, source: u32) -> PhysRange {
        let offset = PRIORITY_BYTES * u64::from(source);
        PhysRange::new(self.base.saturating_add(offset), PRIORITY_BYTES)
    }
}

impl Machine {
    /// The source of the PLIC [`Interrupts::plics`](crate::Interrupts::plics)`[place]` that only
    /// machine mode uses.
    #[must_use]
    pub fn kept_source(&self, place: usize) -> Option<u32> {
        match self.power_fail?.input {
            PowerFailInput::Plic {
                place: of, source, ..
            } => (of == place).then_some(source),
            PowerFailInput::Aplic { .. } => None,
        }
    }

    /// The mediated registers of all PLICs: enable registers, and the priority of machine mode's own
    /// source.
    pub fn mediated_plic_registers(&self) -> impl Iterator<Item = PhysRange> {
        let plics = self.interrupts.plics.iter().enumerate();
        plics.flat_map(|(place, plic)| {
            let priority = self.kept_source(place).map(|source| plic.priority(source));
            [plic.enables()].into_iter().chain(priority)
        })
    }
}
