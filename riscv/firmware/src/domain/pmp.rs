//! Physical memory protection: probes a hart's PMP, and writes the plan of `poorwill_domain` into
//! its registers.

use poorwill_arch::{fence, hart_id, pmp as registers};
use poorwill_domain::Fence;
use poorwill_domain::pmp::{
    Lost, MAX_ENTRIES, PlanError, Pmp, PmpPlan, PmpRegisters, TranslatedCode,
};
use poorwill_memory::PhysRange;
use poorwill_sleep::Protection;
use thiserror::Error;

use super::{LiveDomain, all};
use crate::platform::console::say;

const _: () = assert!(MAX_ENTRIES == registers::MAX_ENTRIES);

/// Why a hart's PMP cannot protect machine mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PmpError {
    #[error("hart {hart}: {error}")]
    Plan { hart: u64, error: PlanError },
    #[error("hart {hart}: {error}")]
    Lost { hart: u64, error: Lost },
}

struct ThisHart;

impl PmpRegisters for ThisHart {
    fn set_address(&self, entry: usize, value: u64) -> Option<u64> {
        // SAFETY: entries are written only while no OS runs on the hart, and no plan locks an
        // entry.
        unsafe { registers::set_address(entry, value) }
    }

    fn set_config(&self, word: usize, value: u64) -> Option<u64> {
        // SAFETY: as for `set_address`: no OS, no lock.
        unsafe { registers::set_config(word, value) }
    }
}

/// Probes the calling hart's PMP. Its entries are off after the call.
pub(crate) fn probe() -> Pmp {
    Pmp::probe(&ThisHart)
}

/// Makes the plan for harts with `pmp`, the calling hart's. `closed`: machine mode's own ranges;
/// `readable`: a part of them that the OS may read; `wished`: further ranges to close if there are
/// enough entries. Returns whether `wished` is closed. Without PMP there is no plan, and the
/// console reports it.
///
/// # Errors
///
/// [`PmpError::Plan`]: the hart has PMP, but it does not suffice.
// Not inlined: see `domain::start`.
#[inline(never)]
pub(crate) fn start(
    domain: &LiveDomain,
    closed: impl Iterator<Item = PhysRange>,
    wished: impl Iterator<Item = PhysRange>,
    readable: Option<PhysRange>,
    pmp: Pmp,
) -> Result<bool, PmpError> {
    if !pmp.is_there() {
        say!(
            "no physical memory protection on hart {}: the OS can reach machine mode's memory, and no vault is used",
            hart_id()
        );
        return Ok(false);
    }
    let fence = Fence {
        readable,
        memory: domain.memory.ranges(),
        devices: &domain.devices,
        registers: &domain.registers,
    };
    let (plan, has_wished) = fence.plan(closed, wished, pmp).map_err(of_this_hart)?;
    domain.plan.call_once(|| plan);
    Ok(has_wished)
}

fn of_this_hart(error: PlanError) -> PmpError {
    PmpError::Plan {
        hart: hart_id(),
        error,
    }
}

/// Returns whether the machine is protected; only after [`start`].
pub(crate) fn is_there() -> bool {
    let plans = all().map(|domain| domain.plan.is_completed());
    plans.reduce(|all, one| all && one).unwrap_or(false)
}

/// The protection, for the boot report.
pub(crate) fn protection() -> Protection {
    Protection::of(is_there())
}

/// Sets the calling hart's PMP by the plan of its domain.
///
/// # Errors
///
/// [`PmpError`]: the OS must not run on the hart, whose protection would be weaker than the boot
/// hart's.
pub(crate) fn start_hart(domain: &LiveDomain) -> Result<(), PmpError> {
    let pmp = probe();
    match domain.plan.get() {
        Some(plan) => {
            plan.fits(pmp).map_err(of_this_hart)?;
            write(plan)
        }
        // Without an entry the OS would have no access at all.
        None if pmp.is_there() => write(&PmpPlan::open()),
        None => Ok(()),
    }
}

/// Sets the calling weak hart's PMP for translated code.
///
/// # Errors
///
/// [`PmpError`]: translated code must not run.
// Not inlined: the plan takes much stack.
#[inline(never)]
pub(crate) fn start_translated_code(reach: &TranslatedCode) -> Result<(), PmpError> {
    let memory = all().flat_map(|domain| domain.memory.ranges().iter().copied());
    let plan = PmpPlan::of_translated_code(memory, reach, probe());
    write(&plan.map_err(of_this_hart)?)
}

fn write(plan: &PmpPlan) -> Result<(), PmpError> {
    let hart = hart_id();
    (plan.write(&ThisHart)).map_err(|error| PmpError::Lost { hart, error })?;
    fence::all();
    Ok(())
}
