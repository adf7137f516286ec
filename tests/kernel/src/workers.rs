//! The other harts: started when a case needs them, given work by a word in memory, and stopped
//! again.

use crate::{arch, check, machine::MAX_HARTS, machine::Machine, read_csr, verdict, write_csr};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use sbi_spec::hsm::hart_state;

/// What a worker does, as a word that harts share.
const WAIT: usize = 0;
const STOP: usize = 1;
const TAKE_IPI: usize = 2;
const TOOK_IPI: usize = 3;
const LOST_IPI: usize = 4;

const TAKE_OVER: usize = 5;
const DO_JOB: usize = 6;
const DID_JOB: usize = 7;
const STOP_LATER: usize = 8;

/// What harts do together.
pub(crate) type Job<'j> = dyn Fn() + Sync + 'j;

/// What a worker runs that takes over from the boot hart.
pub(crate) type Successor = fn(&Machine, usize) -> !;

/// What [`hand_over`] leaves for the worker: a machine, and a [`Successor`].
static MACHINE: AtomicPtr<Machine> = AtomicPtr::new(core::ptr::null_mut());
static SUCCESSOR: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
/// What [`stop_later`] leaves: the time of the stop.
static STOP_AT: AtomicU64 = AtomicU64::new(0);
/// What [`with_all`] leaves: the address of a reference to a [`Job`].
static JOB: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// By the hart's place in the device tree's order. `Release` by who writes,
/// `Acquire` by who reads, so what was done before the word is seen with it.
static WORD: [AtomicUsize; MAX_HARTS] = [const { AtomicUsize::new(WAIT) }; MAX_HARTS];
static RUNS: [AtomicUsize; MAX_HARTS] = [const { AtomicUsize::new(0) }; MAX_HARTS];
/// The hart ids, which a worker needs to find its place.
static IDS: [AtomicUsize; MAX_HARTS] = [const { AtomicUsize::new(usize::MAX) }; MAX_HARTS];

unsafe extern "C" {
    safe fn worker_entry();
}

/// A worker's address for HSM.
pub(crate) fn entry_address() -> usize {
    worker_entry as *const () as usize
}

/// The place of the hart that runs this, by its stack; `None` on the boot hart.
pub(crate) fn own_place(machine: &Machine) -> Option<usize> {
    let here = 0_u8;
    let here = (&raw const here).addr();
    let mut places = 0..machine.harts.len();
    // The stacks lie in the order of places.
    places.find(|place| (here..here + arch::STACK_SIZE).contains(&arch::worker_stack_top(*place)))
}

/// All harts but this one.
pub(crate) fn others(machine: &Machine, this: usize) -> impl Iterator<Item = usize> {
    machine
        .harts
        .iter()
        .copied()
        .filter(move |&hart| hart != this)
}

/// Starts a hart and waits until it runs; says whether it does.
pub(crate) fn start(machine: &Machine, hart: usize) -> bool {
    let index = machine.index_of(hart);
    IDS[index].store(hart, Ordering::Relaxed);
    WORD[index].store(WAIT, Ordering::Relaxed);
    let runs = RUNS[index].load(Ordering::Acquire);
    let answer = sbi_rt::hart_start(hart, entry_address(), arch::worker_stack_top(index));
    verdict::check_success("hart_start", answer);
    answer.is_ok() && wait_until(machine, || RUNS[index].load(Ordering::Acquire) != runs)
}

/// Sends the hart an IPI that it waits for; says whether it came.
pub(crate) fn interrupt(machine: &Machine, hart: usize) -> bool {
    let mask = sbi_rt::HartMask::from_mask_base(1, hart);
    interrupt_by(machine, hart, || {
        verdict::check_success("send_ipi", sbi_rt::send_ipi(mask));
    })
}

/// The same, by what `send` does.
pub(crate) fn interrupt_by(machine: &Machine, hart: usize, send: impl FnOnce()) -> bool {
    let word = &WORD[machine.index_of(hart)];
    word.store(TAKE_IPI, Ordering::Release);
    send();
    wait_until(machine, || word.load(Ordering::Acquire) != TAKE_IPI)
        && word.load(Ordering::Acquire) == TOOK_IPI
}

/// Lets a hart stop itself; says whether HSM reports it stopped.
pub(crate) fn stop(machine: &Machine, hart: usize) -> bool {
    WORD[machine.index_of(hart)].store(STOP, Ordering::Release);
    wait_until(machine, || state(hart) == Some(hart_state::STOPPED))
}

/// Lets a hart stop itself after this number of milliseconds.
pub(crate) fn stop_later(machine: &Machine, hart: usize, delay_ms: u64) {
    let at = machine.in_ms(delay_ms);
    STOP_AT.store(at, Ordering::Relaxed);
    WORD[machine.index_of(hart)].store(STOP_LATER, Ordering::Release);
}

/// A hart's state as HSM reports it.
pub(crate) fn state(hart: usize) -> Option<usize> {
    sbi_rt::hart_get_status(hart).into_result().ok()
}

/// Starts each other hart, sends it an IPI, and stops it.
pub(crate) fn check_all(machine: &Machine, this: usize) {
    for hart in others(machine, this) {
        check!(
            state(hart) == Some(hart_state::STOPPED),
            "hart {hart} is stopped: {:?}",
            state(hart)
        );
        check!(start(machine, hart), "hart {hart} starts");
        check!(interrupt(machine, hart), "hart {hart} takes an IPI");
        check!(stop(machine, hart), "hart {hart} stops");
    }
}

/// Lets `hart` run `successor`, and stops this hart.
pub(crate) fn hand_over(machine: &Machine, hart: usize, successor: Successor) -> ! {
    check!(start(machine, hart), "hart {hart} starts");
    MACHINE.store(core::ptr::from_ref(machine).cast_mut(), Ordering::Relaxed);
    SUCCESSOR.store(successor as *mut (), Ordering::Relaxed);
    WORD[machine.index_of(hart)].store(TAKE_OVER, Ordering::Release);
    let answer = sbi_rt::hart_stop();
    panic!("hart_stop returned {answer:?}");
}

/// Starts every other hart, lets `lead` run `job` on all of them and this one
/// at once (by calling what it is given, which returns when all are through),
/// and stops the others again.
pub(crate) fn with_all(
    machine: &Machine,
    this: usize,
    job: &Job<'_>,
    lead: impl FnOnce(&dyn Fn()),
) {
    for hart in others(machine, this) {
        check!(start(machine, hart), "hart {hart} starts");
    }
    lead(&|| {
        let address = (&raw const job).cast_mut().cast();
        JOB.store(address, Ordering::Relaxed);
        let word = |hart| &WORD[machine.index_of(hart)];
        others(machine, this).for_each(|hart| word(hart).store(DO_JOB, Ordering::Release));
        job();
        for hart in others(machine, this) {
            let did = || word(hart).load(Ordering::Acquire) == DID_JOB;
            // A hart that goes on would use what is gone when this returns.
            assert!(wait_until(machine, did), "hart {hart} does its part");
        }
    });
    for hart in others(machine, this) {
        check!(stop(machine, hart), "hart {hart} stops");
    }
}

/// Starts a hart, lets it run `job`, and stops it again.
pub(crate) fn on(machine: &Machine, hart: usize, job: &Job<'_>) {
    check!(start(machine, hart), "hart {hart} starts");
    let address = (&raw const job).cast_mut().cast();
    JOB.store(address, Ordering::Relaxed);
    let word = &WORD[machine.index_of(hart)];
    word.store(DO_JOB, Ordering::Release);
    let did = || word.load(Ordering::Acquire) == DID_JOB;
    // A hart that goes on would use what is gone when this returns.
    assert!(wait_until(machine, did), "hart {hart} does its part");
    check!(stop(machine, hart), "hart {hart} stops");
}

/// Does what [`with_all`] left.
fn do_job() {
    // SAFETY: `with_all` waits for every hart that it gave the word to, so the
    // reference and what it refers to are there; the word ordered the store
    // before this load.
    let job = unsafe { *JOB.load(Ordering::Relaxed).cast::<&Job<'_>>() };
    job();
}

/// Waits for the others to be stopped, and runs what [`hand_over`] left.
fn take_over(hart: usize) -> ! {
    // SAFETY: `hand_over` borrowed the machine for ever, as it never returns,
    // and its stack is no other hart's; the word ordered the two stores
    // before these loads; null is no function, but then the word is not set.
    let (machine, successor) = unsafe {
        let successor = SUCCESSOR.load(Ordering::Relaxed);
        (
            &*MACHINE.load(Ordering::Relaxed),
            core::mem::transmute::<*mut (), Successor>(successor),
        )
    };
    for other in others(machine, hart) {
        let stopped = || state(other) == Some(hart_state::STOPPED);
        check!(wait_until(machine, stopped), "hart {other} stops");
    }
    successor(machine, hart)
}

/// Spins until `done` is true, for up to 15 seconds: longer than any call may take.
fn wait_until(machine: &Machine, done: impl Fn() -> bool) -> bool {
    let end = arch::time() + 15 * machine.timebase;
    while arch::time() < end {
        if done() {
            return true;
        }
        core::hint::spin_loop();
    }
    done()
}

/// What a started hart runs. It never returns: it stops itself.
pub(crate) fn work(hart: usize) -> ! {
    let index = IDS
        .iter()
        .position(|id| id.load(Ordering::Relaxed) == hart)
        .expect("a known hart");
    check!(
        read_csr!("satp") == 0,
        "hart {hart} starts without translation"
    );
    check!(
        read_csr!("sstatus") & arch::SSTATUS_SIE == 0,
        "hart {hart} starts with interrupts off"
    );
    RUNS[index].fetch_add(1, Ordering::Release);
    loop {
        match WORD[index].load(Ordering::Acquire) {
            STOP => break,
            STOP_LATER if arch::time() >= STOP_AT.load(Ordering::Relaxed) => break,
            TAKE_OVER => take_over(hart),
            DO_JOB => {
                do_job();
                WORD[index].store(DID_JOB, Ordering::Release);
            }
            TAKE_IPI => {
                let cause = arch::guard::wait_for_interrupt(arch::SOFTWARE, u64::MAX >> 2);
                let took = cause == Some(arch::interrupt_cause(arch::SOFTWARE));
                write_csr!("sip", 0);
                WORD[index].store(if took { TOOK_IPI } else { LOST_IPI }, Ordering::Release);
            }
            _ => core::hint::spin_loop(),
        }
    }
    let answer = sbi_rt::hart_stop();
    panic!("hart_stop returned {answer:?}");
}
