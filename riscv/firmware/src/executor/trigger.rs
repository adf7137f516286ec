//! The start of the suspend half: a trigger on each hart stops the OS before its function that suspends
//! devices. Machine mode then keeps breakpoints of the hart, and redirects the OS's own ones.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use poorwill_arch::{Triggers, csr, interruptible};
use poorwill_devicetree::MAX_LENT;
use poorwill_hart::emulation::cause;
use poorwill_hart::{PageTables, trigger};
use poorwill_memory::linux::{self, FreeListError};

use super::lent::{Executor, executor};
use super::suspend::is_supervisor;
use crate::domain::LiveDomain;
use crate::entry::{TrapFrame, stack};
use crate::hart::domain_state::DomainStopped;
use crate::hart::memory::{memories, os_memory};
use crate::hart::{ThisHart, place_of};
use crate::platform::platform;
use crate::sleep::KernelSpace;

/// Maximum time for the search. It takes 27 million instructions on Debian 13, of which most read the
/// kernel's symbols.
const SEARCH_MS: u64 = 1000;

/// A hart without an armed trigger.
const NONE: u8 = u8::MAX;

/// Delegation of breakpoints to S-mode.
const BREAKPOINTS: u64 = 1 << cause::BREAKPOINT;

/// The start of an OS's suspend half.
#[derive(Debug)]
pub(super) struct SuspendStart {
    has_searched: AtomicBool,
    /// Address of the OS's function; zero if it is not known.
    address: AtomicU64,
    /// The number of each hart's armed trigger, by the hart's place.
    armed: [AtomicU8; MAX_LENT],
    has_reported: AtomicBool,
}

impl SuspendStart {
    pub(super) const fn new() -> Self {
        SuspendStart {
            has_searched: AtomicBool::new(false),
            address: AtomicU64::new(0),
            armed: [const { AtomicU8::new(NONE) }; MAX_LENT],
            has_reported: AtomicBool::new(false),
        }
    }
}

/// Finds the start of the suspend half once, after the first wake from powered RAM. The other harts
/// of the OS are stopped.
pub(super) fn learn(executor: &Executor, hart: ThisHart) {
    let suspend = &executor.suspend;
    if suspend.has_searched.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = csr::read::<{ csr::MINSTRET }>();
    // SAFETY: the search holds nothing that the OS's timer needs.
    let found = stack::deep(|| unsafe { interruptible(0, || search(hart.domain())) });
    let instructions = csr::read::<{ csr::MINSTRET }>().wrapping_sub(before);
    match found {
        Ok(address) => {
            suspend.address.store(address, Ordering::Release);
            (hart.domain()).say(format_args!(
                "executor suspend_start={address:#x} instructions={instructions}"
            ));
        }
        Err(error) => (hart.domain()).say(format_args!("executor has no suspend half: {error}")),
    }
}

/// Searches the memory of the OS, which the calling hart alone runs.
fn search(domain: &LiveDomain) -> Result<u64, FreeListError> {
    let tables = PageTables::of_satp(csr::read::<{ csr::SATP }>());
    let tables = tables.ok_or(FreeListError::NoPageTables)?;
    let stopped = DomainStopped::alone(domain).map_err(|_| FreeListError::Ended)?;
    let mut memories = memories();
    memories.clear();
    memories.push(os_memory(&stopped));
    let time = &platform().time;
    let until = time.ticks() + time.ticks_in(SEARCH_MS * 1_000_000);
    let found = linux::suspend_start(&memories[0], &KernelSpace { tables, until });
    memories.clear();
    found
}

/// Arms the calling hart's trigger, if the start is known.
pub(crate) fn arm(hart: ThisHart) {
    let Some(suspend) = executor().map(|executor| &executor.suspend) else {
        return;
    };
    let address = suspend.address.load(Ordering::Acquire);
    if address == 0 {
        return;
    }
    match trigger::set(&Triggers, address) {
        Some(number) => {
            suspend.armed[place_of(&hart)].store(number as u8, Ordering::Relaxed);
            // SAFETY: machine mode redirects the OS's own breakpoints.
            unsafe { csr::clear::<{ csr::MEDELEG }>(BREAKPOINTS) };
        }
        None if suspend.has_reported.swap(true, Ordering::Relaxed) => {}
        None => (hart.domain()).say(format_args!(
            "executor has no suspend half on hart {}, which lacks a trigger",
            hart.id()
        )),
    }
}

/// Clears the calling hart's trigger. Breakpoints are the OS's again.
pub(super) fn disarm(executor: &Executor, hart: ThisHart) {
    let number = executor.suspend.armed[place_of(&hart)].swap(NONE, Ordering::Relaxed);
    if number != NONE {
        trigger::clear(&Triggers, number.into());
        // SAFETY: S-mode handles its breakpoints.
        unsafe { csr::set::<{ csr::MEDELEG }>(BREAKPOINTS) };
    }
}

/// Returns whether a trap is the calling hart's trigger. It comes before the instruction's own
/// breakpoint.
pub(crate) fn fires(hart: ThisHart, frame: &TrapFrame, cause: u64) -> bool {
    let Some(executor) = executor().filter(|_| cause == cause::BREAKPOINT) else {
        return false;
    };
    let suspend = &executor.suspend;
    let is_armed = suspend.armed[place_of(&hart)].load(Ordering::Relaxed) != NONE;
    let is_there = frame.mepc as u64 == suspend.address.load(Ordering::Acquire);
    is_armed && is_there && is_supervisor(frame)
}
