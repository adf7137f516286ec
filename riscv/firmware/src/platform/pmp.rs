//! Physical memory protection: finds out what a hart has, and writes the plan of
//! `poorwill_domain` into its registers.

use arrayvec::ArrayVec;
use poorwill_domain::Domain;
use poorwill_domain::pmp::{
    MAX_ENTRIES, MAX_PLANNED, PlanError, Pmp, PmpPlan, TooManyRanges, Wanted,
};
use poorwill_memory::PhysRange;
use spin::Once;
use thiserror::Error;

use super::console::say;
use crate::arch::{self, csr};

/// Entries whose configuration one register holds.
const ENTRIES_IN_A_WORD: usize = 8;

/// A register: writes it and gives what it then reads, `None` where the hart lacks
/// it.
type Register = fn(u64) -> Option<u64>;

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

macro_rules! registers {
    ($base:path, $step:literal: $($index:literal)*) => {
        [$(|value| {
            // SAFETY: entries bind only S and U mode, as none is locked, and no OS
            // runs on a hart whose entries are written.
            let is_there = unsafe { csr::try_write::<{ $base + $step * $index }>(value) };
            is_there.then(|| csr::try_read::<{ $base + $step * $index }>())?
        }),*]
    };
}

static ADDRESSES: [Register; MAX_ENTRIES] = registers!(csr::PMPADDR0, 1:
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);

/// On a hart of 64 bits there are only those with even numbers.
static CONFIGS: [Register; MAX_ENTRIES / ENTRIES_IN_A_WORD] =
    registers!(csr::PMPCFG0, 2: 0 1 2 3 4 5 6 7);

/// What the calling hart has. Its entries are off afterwards.
pub(crate) fn probe() -> Pmp {
    for config in &CONFIGS {
        config(0);
    }
    // All ones, of which those stick that the register has.
    let mut stuck = ADDRESSES.iter().map(|address| address(u64::MAX));
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
            arch::hart_id()
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
        hart: arch::hart_id(),
        error,
    }
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
        hart: arch::hart_id(),
        entry,
    };
    for (index, (entry, register)) in plan.entries().iter().zip(&ADDRESSES).enumerate() {
        // What an address register holds depends on the configuration, and bits of
        // it may not be there: those that are there are told by all ones.
        let there = register(u64::MAX).unwrap_or(0);
        let held = register(entry.address).unwrap_or(0);
        if (held ^ entry.address) & there != 0 || there == 0 {
            return Err(lost(index));
        }
    }
    for (index, (word, register)) in plan.config_words().iter().zip(&CONFIGS).enumerate() {
        // A hart has as many of these registers as its entries need.
        let held = register(*word).unwrap_or(0);
        if held != *word {
            let wrong = (held ^ word).trailing_zeros() / u8::BITS;
            return Err(lost(index * ENTRIES_IN_A_WORD + wrong as usize));
        }
    }
    arch::fence::all();
    Ok(())
}
