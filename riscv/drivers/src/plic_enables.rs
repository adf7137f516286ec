//! Mediates the enable registers of a PLIC. The OS may access those of its own contexts. With those
//! of machine mode's contexts it could make sources interrupt machine mode, or disable machine
//! mode's own source.
//!
//! The mediation costs little: an OS enables a source only when a driver starts or stops.
//! Thresholds and claims, which each interrupt uses, are not mediated: they have no effect on a
//! context without a source.

use arrayvec::ArrayVec;
use poorwill_devicetree::{self as devicetree, MAX_HARTS};
use poorwill_memory::PhysRange;

use crate::mediated::{CallerMemory, Mediator, RegisterAccess, Ruling};
use crate::plic::register;

/// Mediator of the enable registers.
#[derive(Clone, Debug)]
pub struct PlicEnables {
    contexts: ArrayVec<u32, MAX_HARTS>,
    /// The source that only machine mode uses.
    kept: Option<u32>,
}

impl PlicEnables {
    /// Returns the addresses of a PLIC's enable registers and their mediator. No context of the OS
    /// gets the source `kept`.
    #[must_use]
    pub fn new(described: &devicetree::Plic, kept: Option<u32>) -> (PhysRange, Self) {
        let contexts = described.contexts.clone();
        (described.enables(), PlicEnables { contexts, kept })
    }
}

impl Mediator for PlicEnables {
    fn rule(
        &mut self,
        offset: u64,
        bytes: u64,
        access: RegisterAccess,
        _memory: &dyn CallerMemory,
    ) -> Ruling {
        // An aligned access of up to 8 bytes lies within one context.
        let context = offset / register::ENABLE_STRIDE;
        if !self.contexts.iter().any(|own| u64::from(*own) == context) {
            return Ruling::Fault;
        }
        let first = offset % register::ENABLE_STRIDE * 8;
        let kept = self.kept.map(u64::from);
        let bit = kept.and_then(|source| source.checked_sub(first));
        match (access, bit.filter(|bit| *bit < 8 * bytes)) {
            (RegisterAccess::Store(value), Some(bit)) => Ruling::Store(value & !(1 << bit)),
            _ => Ruling::Pass,
        }
    }
}

/// A register that the OS may only read: the priority of machine mode's own source. A priority of
/// zero would disable the source.
#[derive(Clone, Copy, Debug)]
pub struct FixedRegister;

impl FixedRegister {
    /// Returns the address of the source's priority and its mediator.
    #[must_use]
    pub fn priority(described: &devicetree::Plic, source: u32) -> (PhysRange, Self) {
        (described.priority(source), FixedRegister)
    }
}

impl Mediator for FixedRegister {
    fn rule(
        &mut self,
        _offset: u64,
        _bytes: u64,
        access: RegisterAccess,
        _memory: &dyn CallerMemory,
    ) -> Ruling {
        match access {
            RegisterAccess::Load => Ruling::Pass,
            RegisterAccess::Store(_) => Ruling::Done,
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
        let (range, mut enables) = PlicEnables::new(&plic(&[1, 3], &[0, 2, 4]), None);
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
        assert_eq!(PlicEnables::new(&plic(&[], &[]), None).0.length(), 0);
    }

    #[test]
    fn the_source_that_is_kept_is_no_context_s() {
        let plic = plic(&[1], &[0]);
        let (_, mut enables) = PlicEnables::new(&plic, Some(60));
        let mut store = |offset: u64, bytes, value| {
            enables.rule(
                0x80 + offset,
                bytes,
                RegisterAccess::Store(value),
                &NoMemory,
            )
        };
        let all = u64::from(u32::MAX);
        assert_eq!(store(4, 4, all), Ruling::Store(all & !(1 << 28)));
        assert_eq!(store(0, 8, u64::MAX), Ruling::Store(!(1 << 60)));
        assert_eq!(store(7, 1, 0xff), Ruling::Store(0xef));
        assert_eq!(store(0, 4, all), Ruling::Pass);
        assert_eq!(store(8, 8, u64::MAX), Ruling::Pass);
        let load = enables.rule(0x84, 4, RegisterAccess::Load, &NoMemory);
        assert_eq!(load, Ruling::Pass);

        let (place, mut priority) = FixedRegister::priority(&plic, 60);
        assert_eq!(place, PhysRange::new(0xc00_00f0, 4));
        let mut rule = |access| priority.rule(0, 4, access, &NoMemory);
        assert_eq!(rule(RegisterAccess::Load), Ruling::Pass);
        assert_eq!(rule(RegisterAccess::Store(0)), Ruling::Done);
    }
}
