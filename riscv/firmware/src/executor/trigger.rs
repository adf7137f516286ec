//! The start of the suspend half: a trigger on each hart stops the OS before its function that suspends
//! devices. Machine mode then keeps breakpoints of the hart, and redirects the OS's own ones.

use core::sync::atomic::Ordering;

use poorwill_arch::{Triggers, csr, interruptible};
use poorwill_hart::PageTables;
use poorwill_hart::emulation::cause;
use poorwill_hart::trigger::NoTrigger;
use poorwill_memory::linux::{self, FreeListError};

use super::lent::{Executor, executor};
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

/// Delegation of breakpoints to S-mode.
const BREAKPOINTS: u64 = 1 << cause::BREAKPOINT;

/// Finds the start of the suspend half once, after the first wake from powered RAM. The other harts
/// of the OS are stopped.
pub(super) fn learn(executor: &Executor, hart: ThisHart) {
    if executor.has_searched.swap(true, Ordering::Relaxed) {
        return;
    }
    let before = csr::read::<{ csr::MINSTRET }>();
    // SAFETY: the search holds nothing that the OS's timer needs.
    let found = stack::deep(|| unsafe { interruptible(0, || search(hart.domain())) });
    let instructions = csr::read::<{ csr::MINSTRET }>().wrapping_sub(before);
    match found {
        Ok(address) => {
            executor.triggers.set_address(address);
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
    let Some(executor) = executor() else {
        return;
    };
    match executor.triggers.arm(place_of(&hart), &Triggers) {
        Ok(false) => {}
        // SAFETY: machine mode redirects the OS's own breakpoints.
        Ok(true) => unsafe { csr::clear::<{ csr::MEDELEG }>(BREAKPOINTS) },
        Err(NoTrigger) if executor.has_reported.swap(true, Ordering::Relaxed) => {}
        Err(NoTrigger) => (hart.domain()).say(format_args!(
            "executor has no suspend half on hart {}, which lacks a trigger",
            hart.id()
        )),
    }
}

/// Clears the calling hart's trigger. Breakpoints are the OS's again.
pub(super) fn disarm(executor: &Executor, hart: ThisHart) {
    if executor.triggers.disarm(place_of(&hart), &Triggers) {
        // SAFETY: S-mode handles its breakpoints.
        unsafe { csr::set::<{ csr::MEDELEG }>(BREAKPOINTS) };
    }
}

/// Returns whether a trap is the calling hart's trigger.
pub(crate) fn fires(hart: ThisHart, frame: &TrapFrame, cause: u64) -> bool {
    let is_breakpoint = cause == cause::BREAKPOINT && frame.is_of_supervisor();
    let Some(executor) = executor().filter(|_| is_breakpoint) else {
        return false;
    };
    executor.triggers.fires(place_of(&hart), frame.mepc as u64)
}
