//! Physical memory protection: finds out what a hart has, and writes the plan of
//! `poorwill_domain` into its registers.

use arrayvec::ArrayVec;
use poorwill_arch::{fence, hart_id, pmp as registers};
use poorwill_domain::Domain;
use poorwill_domain::pmp::{
    MAX_ENTRIES, MAX_PLANNED, PlanError, Pmp, PmpPlan, TooManyRanges, Wanted,
};
use poorwill_memory::PhysRange;
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
    /// A register does not hold what was written to it, as one does that an earlier
    /// stage has locked.
    #[error(
        "hart {hart}: entry {entry} of physical memory protection does not hold what was written"
    )]
    Lost {
        /// Whose PMP it is.
        hart: u64,
        /// The first such entry.
        entry: usize,
    },
}

/// What the calling hart has. Its entries are off afterwards.
pub(crate) fn probe() -> Pmp {
    for word in 0..registers::MAX_CONFIGS {
        set_config(word, 0);
    }
    // All ones, of which those stick that the register has.
    let mut stuck = (0..MAX_ENTRIES).map(|entry| set_address(entry, u64::MAX));
    let Some(first @ 1..) = stuck.next().flatten() else {
        return Pmp::NONE;
    };
    let more = stuck.take_while(|bits| matches!(bits, Some(1..))).count();
    Pmp::probed(1 + more, first)
}

/// Makes the plan for harts with `pmp`, which is that of the calling one. `closed` is
/// machine mode's own; `readable` is a part of it that the OS may read. Without PMP
/// there is none, which is said.
///
/// # Errors
///
/// [`PmpError::Plan`]: there is PMP, and it does not suffice.
// A function of its own: see `domain::start`.
#[inline(never)]
pub(super) fn start(
    domain: &Domain,
    closed: impl Iterator<Item = PhysRange>,
    readable: Option<PhysRange>,
    pmp: Pmp,
) -> Result<(), PmpError> {
    if !pmp.is_there() {
        say!(
            "no physical memory protection on hart {}: the OS can reach machine mode's memory, and no vault is used",
            hart_id()
        );
        return Ok(());
    }
    let mut list = ArrayVec::<PhysRange, MAX_PLANNED>::new();
    for range in closed {
        (list.try_push(range)).map_err(|_| of_this_hart(TooManyRanges.into()))?;
    }
    let wanted = Wanted {
        readable: readable.as_slice(),
        closed: &list,
        memory: domain.memory.ranges(),
        devices: &domain.devices,
    };
    let plan = PmpPlan::new(&wanted, pmp).map_err(of_this_hart)?;
    PLAN.call_once(|| plan);
    Ok(())
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

/// Writes all of the plan, and reads it back.
fn write(plan: &PmpPlan) -> Result<(), PmpError> {
    let lost = |entry| PmpError::Lost {
        hart: hart_id(),
        entry,
    };
    for (index, entry) in plan.entries().iter().enumerate() {
        // What an address register holds depends on the configuration, and bits of
        // it may not be there: those that are there are told by all ones.
        let there = set_address(index, u64::MAX).unwrap_or(0);
        let held = set_address(index, entry.address).unwrap_or(0);
        if (held ^ entry.address) & there != 0 || there == 0 {
            return Err(lost(index));
        }
    }
    for (index, word) in plan.config_words().iter().enumerate() {
        // A hart has as many of these registers as its entries need.
        let held = set_config(index, *word).unwrap_or(0);
        if held != *word {
            let wrong = (held ^ word).trailing_zeros() / u8::BITS;
            return Err(lost(index * registers::ENTRIES_IN_A_WORD + wrong as usize));
        }
    }
    fence::all();
    Ok(())
}

fn set_address(entry: usize, value: u64) -> Option<u64> {
    // SAFETY: no OS runs on a hart whose entries are written, and no plan locks one.
    unsafe { registers::set_address(entry, value) }
}

fn set_config(word: usize, value: u64) -> Option<u64> {
    // SAFETY: as for `set_address`: no OS, no lock.
    unsafe { registers::set_config(word, value) }
}
