//! PLIC (RISC-V Platform-Level Interrupt Controller 1.0).

use arrayvec::ArrayVec;
use poorwill_devicetree::{self as devicetree, MAX_HARTS};

use super::RegisterSet;
use crate::platform::mmio::Mmio;

/// Register offsets (PLIC specification, chapter 3).
mod register {
    pub(super) const PRIORITY: usize = 0;
    pub(super) const ENABLE: usize = 0x2000;
    pub(super) const ENABLE_STRIDE: usize = 0x80;
    pub(super) const THRESHOLD: usize = 0x20_0000;
    pub(super) const CONTEXT_STRIDE: usize = 0x1000;
}

#[derive(Debug)]
pub(super) struct Plic {
    registers: Mmio,
    sources: usize,
    contexts: ArrayVec<usize, MAX_HARTS>,
}

impl Plic {
    /// # Safety
    ///
    /// `plic` describes this machine.
    pub(super) unsafe fn new(plic: &devicetree::Plic) -> Self {
        Plic {
            // SAFETY: passed on to the caller.
            registers: unsafe { Mmio::new(plic.base) },
            sources: plic.sources as usize,
            contexts: (plic.contexts.iter())
                .map(|context| *context as usize)
                .collect(),
        }
    }

    /// Lets every priority through to the OS, which relies on it for the hart
    /// that it boots on.
    pub(super) fn start(&self) {
        for context in &self.contexts {
            let threshold = register::THRESHOLD + context * register::CONTEXT_STRIDE;
            self.registers.write32(threshold, 0);
        }
    }
}

impl RegisterSet for Plic {
    const TAG: u32 = u32::from_le_bytes(*b"PLIC");
    const VERSION: u16 = 1;

    fn registers(&self) -> Mmio {
        self.registers
    }

    /// Priorities, then for each S-mode context its enables and its threshold. A
    /// claim is never open while the OS sleeps.
    fn offsets(&self) -> impl Iterator<Item = usize> {
        let priorities = (1..=self.sources).map(|source| register::PRIORITY + 4 * source);
        let contexts = self.contexts.iter().flat_map(|context| {
            let words = self.sources / 32 + 1;
            let enables = register::ENABLE + context * register::ENABLE_STRIDE;
            let threshold = register::THRESHOLD + context * register::CONTEXT_STRIDE;
            (0..words)
                .map(move |word| enables + 4 * word)
                .chain([threshold])
        });
        priorities.chain(contexts)
    }
}
