//! The weak hart: it waits for a lent hart, and runs it.

use core::sync::atomic::Ordering;

use poorwill_arch::{counters, csr, fence, set_thread_pointer, wait_for_interrupt};
use poorwill_hart::{HsmState, IpiDevice, NEVER, interrupt};
use poorwill_translate::{
    Activity, Blocks, End, KnownMemory, Stop, VirtualHart, first_deadline, next_turn,
};

use super::calls;
use super::hand_back;
use super::host::Reach;
use super::lent::{Executor, LENT, Lent, executor};
use super::lower::{self, BLOCKS, Lower};
use super::report::report;
use crate::entry::{self, stack};
use crate::hart::{self, Hart};
use crate::platform::platform;

/// Instructions of a turn in the interpreter: a hart that spins waits for another one's turn.
const TURN: u64 = 10_000;

/// A turn with translated code.
const TURN_NS: u64 = 200_000;

/// Maximum time for the work of a lending, without waits for interrupts.
const MOST_WORK_MS: u64 = [10_000, 100_000][cfg!(feature = "check-blocks") as usize];

/// Waits for lent harts, for ever.
///
/// # Safety
///
/// The calling hart is the machine's weak hart, and `stack_top` is the top of its stack.
pub(crate) unsafe fn wait(stack_top: usize) -> ! {
    let Some(executor) = executor() else {
        entry::halt()
    };
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
    // A plan for its PMP takes more than the hart's own stack.
    stack::for_job(lower::start);
    executor.has_arrived.store(true, Ordering::Release);
    loop {
        executor.ipi.clear();
        if !executor.ask.take() {
            wait_for_interrupt();
            continue;
        }
        let given = {
            let mut lent = LENT.lock();
            let before = csr::read::<{ csr::MINSTRET }>();
            // No other hart has a job while its OS is lent.
            let given = stack::for_job(|| run(executor, &mut lent));
            lent.half.own += csr::read::<{ csr::MINSTRET }>().wrapping_sub(before);
            if !hand_back::goes_on(&mut lent) {
                report(&mut lent);
            }
            given
        };
        stack::verify(stack_top);
        #[cfg(feature = "stack-marks")]
        hart::say_stacks(Some(stack_top));
        // The next lending may begin once a hart is given back.
        executor.ask.end();
        let waiting = executor.give_back(given);
        // Another hart may have been requested to start.
        let has_work = |(place, hart): &(usize, &Hart)| {
            waiting >> place & 1 != 0 || hart.state() != HsmState::Stopped
        };
        let all = hart::all().iter().enumerate();
        all.filter(has_work).for_each(|(_, hart)| hart.ring());
    }
}

/// Runs the lent harts until they are to be given back. Returns the places of those with an OS.
fn run(executor: &Executor, lent: &mut Lent) -> u32 {
    let domain = hart::all()[lent.place].domain();
    let Some(plan) = domain.plan.get() else {
        // The lender has looked.
        return lent.running();
    };
    let known = KnownMemory::new();
    let reach = |place, lent| Reach {
        domain,
        plan,
        executor,
        place,
        lent,
        known: &known,
    };
    let time = &platform().time;
    let mut began = time.ticks();
    let last = lent.instructions().saturating_add(hand_back::INSTRUCTIONS);
    let mut place = lent.place;
    let mut shared = 0;
    let mut blocks = BLOCKS.lock();
    let mut blocks = blocks.as_mut().filter(|_| !cfg!(feature = "hand-back"));
    if let Some(blocks) = &mut blocks {
        blocks.begin(&reach(place, lent.running()));
    }
    lent.end = loop {
        calls::begin_requested(&mut lent.harts);
        let running = lent.running();
        if shared != running {
            shared = running;
            executor.interrupts.share(|place| running >> place & 1 != 0);
        }
        let is_interrupted =
            |place, hart: &VirtualHart| hart.is_interrupted(&reach(place, running));
        let Some(next) = next_turn(&mut lent.harts, place, is_interrupted) else {
            began += rest(executor, &lent.harts);
            continue;
        };
        place = next;
        let left = last.saturating_sub(lent.instructions());
        let hart = &mut lent.harts[place];
        match turn(hart, &reach(place, running), blocks.as_deref_mut(), left) {
            Stop::Turn if left == 0 => break End::Turn,
            Stop::Turn | Stop::Pauses if time.milliseconds_since(began) > MOST_WORK_MS => {
                break End::Late;
            }
            Stop::Turn => {}
            Stop::Pauses => lent.note_pause(),
            Stop::Waits => hart.activity = Activity::Waits,
            Stop::Call if calls::serve(&mut lent.harts, place, domain) => {}
            Stop::Call => break calls::end(&lent.harts[place]),
            Stop::User => break End::User,
            Stop::Unknown => break End::Unknown,
            Stop::Lost => panic!("translated code has left its region"),
            Stop::Differs(difference) => panic!("{difference}"),
        }
    };
    lent.place = place;
    executor.interrupts.close();
    fence::everything();
    lent.running()
}

/// Runs a hart for a turn, by translated code or for at most `most` instructions.
fn turn(
    hart: &mut VirtualHart,
    reach: &Reach<'_>,
    blocks: Option<&mut Blocks<'_>>,
    most: u64,
) -> Stop {
    let Some(blocks) = blocks else {
        return hart.run(reach, TURN.min(most));
    };
    let time = &platform().time;
    let until = time.ticks() + time.ticks_in(TURN_NS);
    let mut lower = Lower::new(&reach.executor.deadline);
    hart.run_translated(blocks, &mut lower, reach, until)
}

/// Waits for an interrupt of a lent hart, all of which wait. Returns the ticks of the wait. May
/// return earlier.
fn rest(executor: &Executor, harts: &[VirtualHart]) -> u64 {
    let time = &platform().time;
    let began = time.ticks();
    let waits = harts.iter().filter(|hart| hart.activity == Activity::Waits);
    let enabled = waits.fold(0, |enabled, hart| enabled | hart.csrs.sie);
    let bit = |of_os, bit| if enabled & of_os != 0 { bit } else { 0 };
    let enabled = bit(interrupt::STI, interrupt::MTI) | bit(interrupt::SEI, interrupt::MEI);
    executor.deadline.set(first_deadline(harts));
    // SAFETY: machine mode's interrupts are off; the bits end the wait.
    unsafe { csr::write::<{ csr::MIE }>(enabled | interrupt::MSI) };
    fence::after_device_write();
    wait_for_interrupt();
    // SAFETY: as above.
    unsafe { csr::write::<{ csr::MIE }>(interrupt::MSI) };
    executor.deadline.set(NEVER);
    time.ticks().saturating_sub(began)
}
