//! A wake on the weak hart: it closes to the OS what the OS's own hart closes, and takes the
//! interrupts of devices. The case ends with an
//! instruction that the weak hart does not know, so that the OS's hart continues.
//!
//! On the command line: `cycles=N` sleeps in a row; `rounds=N` of the cases of remapped pages and
//! of text; `last_ms=N` of the last sleep of the case of calls; `ms=N` of the endless case's work.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::wild;
use crate::{
    arch::{
        self, guard,
        sleep::{self, Context, Outcome},
        translated,
    },
    check, irqchip,
    machine::Machine,
    say,
    verdict::check_error,
    write_csr,
};
use sbi_spec::{binary::Error::InvalidParam, srst};

/// A timer ends each sleep after this time.
const SLEEP_MS: usize = 200;

/// Sleeps until a timer ends that.
pub(super) fn sleep_once(machine: &Machine, cycle: usize) {
    sleep_for(machine, cycle, SLEEP_MS);
}

fn sleep_for(machine: &Machine, cycle: usize, ms: usize) {
    let _ = sbi_rt::set_timer(machine.in_ms(ms as u64));
    write_csr!("sie", arch::TIMER);
    let mut context = Context::default();
    let outcome = sleep::suspend(0, &mut context);
    check!(
        matches!(outcome, Outcome::Woke(_)),
        "cycle {cycle}: no wake"
    );
    arch::quiet();
    let _ = sbi_rt::set_timer(u64::MAX);
}

/// Pages with different contents, which take turns at one address.
#[repr(C, align(4096))]
struct Page(AtomicUsize, [AtomicUsize; 511]);

static PAGES: [Page; 2] =
    [const { Page(AtomicUsize::new(0), [const { AtomicUsize::new(0) }; 511]) }; 2];

/// After a wake, an address stands for one page and then for another, again and again. The OS's hart
/// must not use a translation that the OS has dropped on the weak hart.
pub(super) fn remapped(machine: &Machine) {
    sleep_once(machine, 1);
    for (number, page) in PAGES.iter().enumerate() {
        page.0.store(number + 1, Ordering::Relaxed);
    }
    let mut wrong = 0;
    translated::with(|| {
        for round in 0..machine.number("rounds", 20_000) {
            let page = &PAGES[round % 2];
            let physical = core::ptr::from_ref(page).addr();
            let at = translated::map(0, physical, translated::READ);
            translated::fence();
            let at = core::ptr::with_exposed_provenance::<usize>(at);
            // SAFETY: the page is mapped there, and no reference to it is mutable.
            let found = unsafe { at.read_volatile() };
            wrong += usize::from(found != round % 2 + 1);
        }
    });
    check!(
        wrong == 0,
        "{wrong} loads from a page that was mapped before"
    );
}

/// A page with a function that returns a number.
#[repr(C, align(4096))]
struct Text([AtomicU32; 1024]);

static TEXT: Text = Text([const { AtomicU32::new(0) }; 1024]);

/// Lets the function return a number below 2048.
#[inline(never)]
fn patch(number: u32) {
    const LI_A0: u32 = 0x513;
    TEXT.0[0].store(LI_A0 | number << 20, Ordering::Relaxed);
}

/// After a wake, the kernel patches its text, by another address of it, and runs it, with `fence.i` and
/// without. The weak hart runs what memory has.
pub(super) fn text(machine: &Machine) {
    const RET: u32 = 0x8067;
    sleep_once(machine, 1);
    TEXT.0[1].store(RET, Ordering::Relaxed);
    let mut wrong = [0; 2];
    translated::with_text(core::ptr::from_ref(&TEXT).addr(), |function| {
        let function = core::ptr::with_exposed_provenance::<()>(function);
        // SAFETY: the function is there, and uses a0 alone.
        let function: extern "C" fn() -> u32 = unsafe { core::mem::transmute(function) };
        let rounds = 0..machine.number("rounds", 4000);
        for (round, number) in rounds.zip((0..2048).cycle()) {
            let is_fenced = round / 8 % 2 == 0;
            patch(number);
            if is_fenced {
                arch::fence_i();
            }
            wrong[usize::from(is_fenced)] += usize::from(function() != number);
        }
    });
    give_back();
    check!(
        wrong == [0; 2],
        "{wrong:?} old instructions without and with fences"
    );
}

pub(super) fn run(machine: &Machine, hart: usize) {
    for cycle in 1..=machine.number("cycles", 3) {
        sleep_once(machine, cycle);
        wild::closed_data(machine);
        wild::machine_contexts(machine);
        irqchip::take_console_interrupt(machine, hart);
        give_back();
        say!("cycle {cycle}: lent and given back");
    }
}

/// Executes an instruction that the weak hart does not know.
pub(super) fn give_back() {
    let csr = guard::read_machine_csr();
    check!(
        csr == Some(guard::ILLEGAL_INSTRUCTION),
        "read mstatus: {csr:?}"
    );
}

/// After a wake, the kernel works for longer than the weak hart has time, and comes to no program and no
/// call. The OS's hart continues amid the work.
pub(super) fn endless(machine: &Machine) {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    sleep_once(machine, 1);
    let end = machine.in_ms(machine.number("ms", 11_000) as u64);
    let (mut steps, mut sum) = (0_u64, 0_u64);
    while arch::time() < end {
        steps += 1;
        sum = core::hint::black_box(sum.wrapping_add(STEP));
    }
    check!(
        sum == steps.wrapping_mul(STEP),
        "{steps} steps have the sum {sum:#x}"
    );
}

/// Calls that the weak hart does not serve: the lent hart serves them without the OS in between. The
/// OS sleeps twice, the second time while it is lent.
pub(super) fn calls(machine: &Machine) {
    sleep_once(machine, 1);
    let answer = sleep::suspend_invalid(1, sleep::wake_vector());
    check_error("an unknown type, by a lent hart", answer, &[InvalidParam]);
    sleep_once(machine, 2);
    sleep_for(machine, 3, machine.number("last_ms", SLEEP_MS));
    const BAD: u32 = 0x7fff_ffff;
    // SAFETY: the firmware refuses the type.
    let answer =
        unsafe { sbi_rt::raw::sbi_call_2(srst::EID_SRST, srst::SYSTEM_RESET, BAD as usize, 0) };
    check_error("an unknown reset, by a lent hart", answer, &[InvalidParam]);
    say!("a lent hart's calls were served");
}
