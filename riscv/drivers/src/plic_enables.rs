//! The registers of a PLIC that enable sources for a context. Those of the OS's contexts are
//! its own; by those of machine mode's it could have sources interrupt machine mode, or
//! keep one from doing so.
//!
//! Enabling is rare: an OS does so when a driver starts or stops. Thresholds and claims,
//! which each interrupt takes, are not watched: of a context without a source they do
//! nothing.

use arrayvec::ArrayVec;
use poorwill_devicetree::{self as devicetree, MAX_HARTS};
use poorwill_memory::PhysRange;

use crate::mediated::{CallerMemory, Mediator, RegisterAccess, Ruling};
use crate::plic::register;

/// What rules over them.
#[derive(Clone, Debug)]
pub struct PlicEnables {
    /// The OS's contexts.
    contexts: ArrayVec<u32, MAX_HARTS>,
}

impl PlicEnables {
    /// Those of a PLIC, and where they lie.
    #[must_use]
    pub fn new(described: &devicetree::Plic) -> (PhysRange, Self) {
        let all = described.contexts.iter().chain(&described.machine_contexts);
        let count = all.max().map_or(0, |last| u64::from(*last) + 1);
        let first = described.base.saturating_add(register::ENABLE);
        let range = PhysRange::new(first, count * register::ENABLE_STRIDE);
        let contexts = described.contexts.clone();
        (range, PlicEnables { contexts })
    }
}

impl Mediator for PlicEnables {
    fn rule(
        &mut self,
        offset: u64,
        _bytes: u64,
        _access: RegisterAccess,
        _memory: &dyn CallerMemory,
    ) -> Ruling {
        // An aligned access of up to 8 bytes is of one context.
        let context = offset / register::ENABLE_STRIDE;
        match self.contexts.iter().any(|own| u64::from(*own) == context) {
            true => Ruling::Pass,
            false => Ruling::Fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mediated::NoMemory;

    fn plic(contexts: &[u32], machine_contexts: &[u32]) -> devicetree::Plic {
        devicetree::Plic {
            base: 0xc00_0000,
            sources: 95,
            contexts: contexts.iter().copied().collect(),
            machine_contexts: machine_contexts.iter().copied().collect(),
        }
    }

    #[test]
    fn each_context_is_its_own() {
        let (range, mut enables) = PlicEnables::new(&plic(&[1, 3], &[0, 2, 4]));
        assert_eq!(range, PhysRange::new(0xc00_2000, 5 * 0x80));
        for (context, expected) in [
            (0, Ruling::Fault),
            (1, Ruling::Pass),
            (2, Ruling::Fault),
            (3, Ruling::Pass),
            (4, Ruling::Fault),
        ] {
            for (word, bytes) in [(0, 4), (0x7c, 4), (0x78, 8), (0x7f, 1)] {
                for access in [RegisterAccess::Load, RegisterAccess::Store(1)] {
                    let ruling = enables.rule(context * 0x80 + word, bytes, access, &NoMemory);
                    assert_eq!(ruling, expected, "context {context}, {word:#x}");
                }
            }
        }
        assert_eq!(PlicEnables::new(&plic(&[], &[])).0.length(), 0);
    }
}
