//! The weak hart: it waits for a lent hart, and runs it.

use core::sync::atomic::Ordering;

use poorwill_arch::{counters, csr, fence, set_thread_pointer, wait_for_interrupt};
use poorwill_hart::{IpiDevice, NEVER, interrupt};
use poorwill_translate::{Host, Stop};

use super::calls;
use super::hand_back;
use super::host::Reach;
use super::lent::{End, Executor, LENT, Lent, executor};
use crate::domain::pmp;
use crate::entry::{self, stack};
use crate::hart;
use crate::platform::platform;

/// Instructions of a turn.
const TURN: u64 = 100_000;

/// Maximum time for the work of a lending, without waits for interrupts.
const MOST_WORK_MS: u64 = 10_000;

/// Waits for lent harts, for ever.
///
/// # Safety
///
/// The calling hart is the machine's weak hart, and `stack_top` is the top of its stack.
pub(crate) unsafe fn wait(stack_top: usize) -> ! {
    let Some(executor) = executor() else {
        entry::halt()
    };
    // Its PMP has no entry afterwards.
    let _ = pmp::probe();
    // It has no `Hart`, so that no code may ask for that.
    set_thread_pointer(0);
    // The weak hart may lack `time`: machine mode then reads MTIME.
    let _ = counters::all_are_there();
    // SAFETY: traps of machine mode are reported; interrupts are off, and the bits end waits.
    unsafe {
        csr::write::<{ csr::MTVEC }>(entry::trap_entry as *const () as u64);
        csr::write::<{ csr::MIE }>(interrupt::MSI);
    }
    executor.deadline.stop();
    executor.interrupts.close();
    executor.has_arrived.store(true, Ordering::Release);
    loop {
        executor.ipi.clear();
        if !executor.ask.take() {
            wait_for_interrupt();
            continue;
        }
        let lender = run(executor, &mut LENT.lock());
        stack::verify(stack_top);
        executor.ask.done();
        if let Some(lender) = lender.and_then(hart::find) {
            lender.ring();
        }
    }
}

/// Runs a lent hart until it is to be given back. Returns the lender's ID.
fn run(executor: &Executor, lent: &mut Lent) -> Option<u64> {
    let lender = hart::find(lent.lender)?;
    let domain = lender.domain();
    let plan = domain.plan.get()?;
    let reach = Reach {
        domain,
        plan,
        executor,
    };
    executor.interrupts.share();
    let time = &platform().time;
    let mut began = time.ticks();
    let instructions = |lent: &Lent| lent.hart.counts.instructions;
    let last = instructions(lent).saturating_add(hand_back::INSTRUCTIONS);
    let end = loop {
        let left = last.saturating_sub(instructions(lent));
        match lent.hart.run(&reach, TURN.min(left)) {
            Stop::Turn if left == 0 => break End::Turn,
            Stop::Turn | Stop::Pauses if time.milliseconds_since(began) > MOST_WORK_MS => {
                break End::Late;
            }
            Stop::Turn | Stop::Pauses => {}
            Stop::Waits => began += rest(executor, lent, &reach),
            Stop::Call if calls::serve(&mut lent.hart, domain, lent.lender) => {}
            Stop::Call => break End::Call,
            Stop::User => break End::User,
            Stop::Unknown => break End::Unknown,
        }
    };
    executor.interrupts.close();
    lent.end = end;
    fence::everything();
    Some(lent.lender)
}

/// Waits for an interrupt of the lent hart. Returns the ticks of the wait.
fn rest(executor: &Executor, lent: &Lent, reach: &Reach<'_>) -> u64 {
    let began = reach.time();
    let csrs = &lent.hart.csrs;
    let bit = |enabled, bit| if csrs.sie & enabled != 0 { bit } else { 0 };
    let enabled = bit(interrupt::STI, interrupt::MTI) | bit(interrupt::SEI, interrupt::MEI);
    executor.deadline.set(csrs.deadline);
    // SAFETY: machine mode's interrupts are off; the bits end the wait.
    unsafe { csr::write::<{ csr::MIE }>(enabled | interrupt::MSI) };
    while !lent.hart.is_interrupted(reach) {
        fence::after_device_write();
        wait_for_interrupt();
    }
    // SAFETY: as above.
    unsafe { csr::write::<{ csr::MIE }>(interrupt::MSI) };
    executor.deadline.set(NEVER);
    reach.time().saturating_sub(began)
}
