//! The fair time base in QEMU: it replaces QEMU's clock, delivers interrupts and wakes idle harts.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use thiserror::Error;

use crate::events::fire;
use crate::log::What;
use crate::model::Guard;
use crate::qemu::counters::{Counter, NO_EXCEPTION};
use crate::qemu::internals::{BigLock, ClockHooks, Internals};
use crate::session::Session;
use crate::time::{BecameIdle, FULL, Reached, Stamp, clock_time, next_jump};
use crate::trace::tracer;
use crate::{TRACED, ending, signal};

/// Why the time base cannot start.
#[derive(Debug, Error)]
pub(crate) enum ClockError {
    #[error("QEMU's clock cannot be hooked: remove -icount")]
    NoHook,
    #[error("no thread for idle harts: {0}")]
    NoThread(#[from] std::io::Error),
}

/// Longest wait for a hart to wake. QEMU may wake a hart that stays idle, and does not say so.
const WAKE_LIMIT: Duration = Duration::from_millis(20);

/// Jumps of a hart that waits, without work for any: a machine that sleeps for good leaves its thread to
/// QEMU, which cannot end it otherwise.
const MOST_JUMPS: usize = 64;

/// Pause after a failed jump: a hart runs again, or there is neither a timer nor an event.
const SETTLE: Duration = Duration::from_micros(20);

/// Takes over QEMU's virtual clock, as soon as the first hart exists.
pub(crate) fn start(session: &'static Session) -> Result<(), ClockError> {
    let hooks = ClockHooks {
        interrupt: interrupted,
        get: get_clock,
        set: set_clock,
    };
    if !session.internals.hook(hooks) {
        return Err(ClockError::NoHook);
    }
    session.csrs.hook(read_csr, write_csr);
    let name = "idle harts".to_owned();
    thread::Builder::new()
        .name(name)
        .spawn(move || watch(session))?;
    Ok(())
}

extern "C" fn get_clock() -> i64 {
    Session::get().clock.load(Ordering::Acquire)
}

/// Advances the virtual clock; an earlier time has no effect.
extern "C" fn set_clock(time: i64) {
    Session::get().clock.fetch_max(time, Ordering::AcqRel);
}

/// QEMU calls this when a hart reads a counter of cycles or instructions.
unsafe extern "C" fn read_csr(state: *mut c_void, csr: c_int, value: *mut u64) -> c_int {
    let session = Session::get();
    let hart = holder(session, state);
    let counter = session.qemu.read_counter(hart);
    let read = session.model().read_csr(hart, Counter::of(csr), counter);
    // SAFETY: QEMU passes a valid place for the value.
    unsafe { value.write(read) };
    NO_EXCEPTION
}

/// QEMU calls this when a hart writes to a counter.
extern "C" fn write_csr(state: *mut c_void, csr: c_int, value: u64) -> c_int {
    let session = Session::get();
    let hart = holder(session, state);
    let counter = session.qemu.read_counter(hart);
    (session.model()).write_csr(hart, Counter::of(csr), counter, value);
    NO_EXCEPTION
}

fn holder(session: &Session, state: *mut c_void) -> usize {
    session.holder(state).expect("CSRs are a hart's")
}

/// QEMU's bit for an interrupt from a device (`CPU_INTERRUPT_HARD`).
const DEVICE_INTERRUPT: c_int = 2;

/// QEMU calls this to interrupt a hart. The caller holds the big lock.
unsafe extern "C" fn interrupted(cpu: *mut c_void, mask: c_int) {
    let session = Session::get();
    let cpu = Internals::named(cpu).expect("an interrupt is a hart's");
    if session.options.deaf.is_some()
        && mask == DEVICE_INTERRUPT
        && let Some(hart) = session.number(cpu)
        && session.model().misses(hart)
    {
        return;
    }
    session.internals.interrupt(cpu, mask);
    if session.internals.is_hart_idle(cpu) {
        return;
    }
    if let Some(hart) = session.number(cpu)
        && let Some(time) = &mut session.model().time
    {
        time.interrupted(hart);
    }
}

/// QEMU calls this at the start of a block if the hart has executed its share of the window, or was
/// idle.
pub(crate) extern "C" fn share_used(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    if tracer::share_used(session, hart) {
        ending::traced(session, TRACED);
    }
    if session.options.deaf.is_some() && session.model().hears(hart) {
        let _lock = session.internals.lock();
        (session.internals).interrupt(session.cpu(hart), DEVICE_INTERRUPT);
    }
    let mut model = session.model();
    if (model.time.as_ref()).is_some_and(|time| time.is_idle(hart)) {
        let counter = session.qemu.read_counter(hart);
        model.note(hart, counter, What::Runs);
    }
    while !model.has_ended() {
        let Some(time) = &mut model.time else {
            return;
        };
        match time.reached(hart, session.qemu.read_counter(hart)) {
            Reached::GoOn(counter) => {
                session.qemu.set_counter(hart, counter);
                drop(model);
                return signal::passed(session);
            }
            Reached::Yield => break,
            Reached::MoveWindow => model = move_window(session, model),
        }
    }
    drop(model);
    session.internals.yield_hart(session.cpu(hart));
}

/// QEMU calls this before a hart executes `wfi`. With a pending interrupt it does not wait: QEMU
/// would say so only once another hart lets it run.
pub(crate) extern "C" fn waits(number: c_uint, _data: *mut c_void) {
    let session = Session::get();
    let hart = Session::hart(number);
    let has_work = session.internals.has_work(session.cpu(hart));
    let mut model = session.model();
    if has_work || model.has_ended() {
        return;
    }
    let Some(time) = &mut model.time else {
        return;
    };
    time.settle(|other| !session.internals.has_work(session.cpu(other)));
    let became = time.became_idle(hart, session.qemu.read_counter(hart));
    let Some(became) = became else {
        return;
    };
    session.qemu.set_counter(hart, FULL);
    match became {
        BecameIdle::OthersRun => {}
        BecameIdle::MoveWindow => drop(move_window(session, model)),
        BecameIdle::AllIdle if session.options.grace.is_zero() => jump_to_work(session, model),
        BecameIdle::AllIdle => session.all_idle.notify_one(),
    }
}

/// Jumps to the next timer or event that gives a hart work, as the harts' own thread. [`watch`] would
/// jump before or after this thread has stopped, and with that the harts would run in another order.
fn jump_to_work(session: &Session, model: Guard<'_>) {
    drop(model);
    for _ in 0..MOST_JUMPS {
        let lock = session.internals.lock();
        if session.cpus().any(|cpu| session.internals.has_work(cpu))
            || session.model().has_ended()
            || !jump(session, &lock)
        {
            break;
        }
    }
    session.all_idle.notify_one();
}

/// Moves to the next window. The model is unlocked while timers and events run.
fn move_window<'a>(session: &'a Session, mut model: Guard<'a>) -> Guard<'a> {
    let Some(end) = model.time.as_ref().map(|time| clock_time(time.end())) else {
        return model;
    };
    let clock = session.clock.load(Ordering::Acquire);
    let deadline = session.internals.deadline();
    if deadline.is_some_and(|deadline| clock.saturating_add_unsigned(deadline) <= end) {
        drop(model);
        let lock = session.internals.lock();
        session.internals.advance(&lock, end);
        drop(lock);
        model = session.model();
    }
    set_clock(end);
    if let Some(time) = &mut model.time {
        time.arrive();
    }
    model = fire(session, model);
    open(&mut model);
    model
}

fn open(model: &mut Guard<'_>) {
    let event = model.schedule.next();
    if let Some(time) = &mut model.time {
        time.open(event);
    }
}

/// Advances the time while all harts are idle, in a thread of its own.
fn watch(session: &'static Session) {
    session.internals.register_thread();
    loop {
        let stamp = wait_until_idle(session);
        if !session.options.grace.is_zero() {
            thread::sleep(session.options.grace);
        }
        let lock = session.internals.lock();
        let jumped = session.internals.is_idle(&lock)
            && is_still_idle(session, stamp)
            && jump(session, &lock);
        drop(lock);
        if !jumped {
            thread::sleep(SETTLE);
        }
    }
}

fn wait_until_idle(session: &Session) -> Stamp {
    let mut model = session.model();
    loop {
        if let Some(time) = &model.time
            && !model.has_ended()
            && (time.is_all_idle() || time.is_quiet())
        {
            return time.stamp();
        }
        let waited = session.all_idle.wait_timeout(model, WAKE_LIMIT);
        model = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Whether no hart has run since `stamp`. QEMU must report all harts as idle: then no hart is
/// waking.
fn is_still_idle(session: &Session, stamp: Stamp) -> bool {
    let mut model = session.model();
    let has_ended = model.has_ended();
    let Some(time) = &mut model.time else {
        return false;
    };
    let is_same = !has_ended && time.is_quiet() && time.stamp() == stamp;
    if is_same {
        time.settle(|_| true);
    }
    is_same
}

/// Jumps to the next timer or event. `false`: there is neither.
fn jump(session: &Session, lock: &BigLock<'_>) -> bool {
    let deadline = session.internals.deadline();
    let clock = session.clock.load(Ordering::Acquire);
    let mut model = session.model();
    let Some(to) = next_jump(clock, deadline, model.schedule.next()) else {
        return false;
    };
    if let Some(time) = &mut model.time {
        time.jump(to.unsigned_abs());
    }
    drop(model);
    session.internals.advance(lock, to);
    set_clock(to);
    let mut model = fire(session, session.model());
    open(&mut model);
    true
}
