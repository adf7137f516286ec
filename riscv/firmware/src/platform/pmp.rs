//! Physical memory protection: finds out what a hart has, and writes the plan of
//! `poorwill_domain` into its registers.

use arrayvec::ArrayVec;
use poorwill_arch::{fence, hart_id, pmp as registers};
use poorwill_domain::Domain;
use poorwill_domain::pmp::{
    Lost, MAX_ENTRIES, MAX_PLANNED, PlanError, Pmp, PmpPlan, PmpRegisters, TooManyRanges, Wanted,
};
use poorwill_memory::PhysRange;
use poorwill_sleep::Protection;
use spin::Once;
use thiserror::Error;

use super::console::say;

const _: () = assert!(MAX_ENTRIES == registers::MAX_ENTRIES);

/// What every hart's PMP is to hold; none on a machine that cannot be protected.
static PLAN: Once<PmpPlan> = Once::new();

/// Why a hart's PMP does not keep the OS out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PmpError {
    /// The plan does not fit.
    #[error("hart {hart}: {error}")]
    Plan {
        /// Whose PMP it is.
        hart: u64,
        /// In what way.
        error: PlanError,
    },
    /// The registers do not hold it.
    #[error("hart {hart}: {error}")]
    Lost {
        /// Whose PMP it is.
        hart: u64,
        /// Which of them.
        error: Lost,
    },
}

/// The registers of the calling hart.
struct ThisHart;

impl PmpRegisters for ThisHart {
    fn set_address(&self, entry: usize, value: u64) -> Option<u64> {
        // SAFETY: no OS runs on a hart whose entries are written, and no plan locks one.
        unsafe { registers::set_address(entry, value) }
    }

    fn set_config(&self, word: usize, value: u64) -> Option<u64> {
        // SAFETY: as for `set_address`: no OS, no lock.
        unsafe { registers::set_config(word, value) }
    }
}

/// What the calling hart has. Its entries are off afterwards.
pub(crate) fn probe() -> Pmp {
    Pmp::probe(&ThisHart)
}

/// Makes the plan for harts with `pmp`, which is that of the calling one. `closed` is
/// machine mode's own, `readable` a part of it that the OS may read, and `wished` what else
/// is to be closed where there are entries for it. Says whether that is. Without PMP there
/// is no plan, which is said.
///
/// # Errors
///
/// [`PmpError::Plan`]: there is PMP, and it does not suffice.
// A function of its own: see `domain::start`.
#[inline(never)]
pub(super) fn start(
    domain: &Domain,
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
    let mut list = ArrayVec::<PhysRange, MAX_PLANNED>::new();
    let mut add = |range| (list.try_push(range)).map_err(|_| of_this_hart(TooManyRanges.into()));
    let mut needed = 0;
    for range in closed {
        add(range)?;
        needed += 1;
    }
    wished.into_iter().try_for_each(add)?;
    let wanted = Wanted {
        readable: readable.as_slice(),
        closed: &list,
        memory: domain.memory.ranges(),
        devices: &domain.devices,
    };
    let (plan, has_wished) = PmpPlan::best(&wanted, needed, pmp).map_err(of_this_hart)?;
    PLAN.call_once(|| plan);
    Ok(has_wished)
}

fn of_this_hart(error: PlanError) -> PmpError {
    PmpError::Plan {
        hart: hart_id(),
        error,
    }
}

/// Whether the machine is protected. Not before [`start`].
pub(crate) fn is_there() -> bool {
    PLAN.is_completed()
}

/// The same, for the OS to be told.
pub(crate) fn protection() -> Protection {
    Protection::of(is_there())
}

/// Sets the calling hart's PMP, by the plan that [`start`] made.
///
/// # Errors
///
/// [`PmpError`]: the OS must not run on the hart, which would not be as well
/// protected as the one that booted the machine.
pub(crate) fn start_hart() -> Result<(), PmpError> {
    let pmp = probe();
    match PLAN.get() {
        Some(plan) => {
            plan.fits(pmp).map_err(of_this_hart)?;
            write(plan)
        }
        // Without an entry it would have no access to anything.
        None if pmp.is_there() => write(&PmpPlan::open()),
        None => Ok(()),
    }
}

fn write(plan: &PmpPlan) -> Result<(), PmpError> {
    let hart = hart_id();
    (plan.write(&ThisHart)).map_err(|error| PmpError::Lost { hart, error })?;
    fence::all();
    Ok(())
}
