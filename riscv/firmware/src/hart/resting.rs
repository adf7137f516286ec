//! Jobs on the hart that rests for a domain: only it can read the OS's registers there.

use poorwill_arch::csr;
use poorwill_memory::EntryPoint;

use crate::domain::LiveDomain;
use crate::domain::asleep::{Job, SleepingHart};
use crate::entry::stack;
use crate::hart::{self, this_hart};
use crate::platform::platform;

/// Maximum wait for the hart to begin.
const PATIENCE_MS: u64 = 1000;

/// Maximum wait for its end, after which the machine is reset. A job takes microseconds.
const MOST_MS: u64 = 60_000;

/// The hart that sleeps does not answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Late(pub(crate) u64);

/// Notes that the calling hart sleeps for its domain, whose OS continues at `vector`.
pub(crate) fn sleeps(domain: &LiveDomain, vector: EntryPoint) {
    let id = this_hart().id();
    *domain.asleep.hart.lock() = Some(SleepingHart { id, vector });
}

/// Where the OS of a domain that sleeps continues.
pub(crate) fn vector(domain: &LiveDomain) -> EntryPoint {
    let hart = *domain.asleep.hart.lock();
    hart.expect("a hart sleeps for the domain").vector
}

/// Runs `job` on the hart that sleeps for the domain: the calling one, or one that rests.
///
/// # Errors
///
/// [`Late`]: the job has not run.
///
/// # Panics
///
/// If the hart does not end the job. (A panic never unwinds: it resets the machine.)
pub(crate) fn run(domain: &LiveDomain, job: Job<'_>) -> Result<(), Late> {
    let asleep = &domain.asleep;
    let sleeping = (*asleep.hart.lock()).expect("a hart sleeps for the domain");
    let hart = hart::find(sleeping.id).expect("it is one of the list");
    if this_hart().is(hart) {
        job();
        return Ok(());
    }
    // SAFETY: the hart uses the reference between `take` and `done` alone. This call returns only
    // after `done`, or after it has withdrawn the job, which the hart cannot take then.
    let lent = unsafe { core::mem::transmute::<Job<'_>, Job<'static>>(job) };
    *asleep.job.lock() = Some(lent);
    assert!(asleep.ask.ask(), "one hart saves the machine");
    hart.ring();
    let time = &platform().time;
    let began = time.ticks();
    while !asleep.ask.is_done() {
        let waited_ms = time.milliseconds_since(began);
        if waited_ms >= PATIENCE_MS && asleep.ask.withdraw() {
            return Err(Late(hart.id()));
        }
        assert!(waited_ms < MOST_MS, "hart {} does not answer", hart.id());
        core::hint::spin_loop();
    }
    Ok(())
}

/// Does the job that another hart has asked the calling one for, which rests for its domain.
/// `as_left` restores the OS's registers before it.
pub(crate) fn answer(domain: &LiveDomain, as_left: impl FnOnce()) -> bool {
    if !domain.asleep.ask.take() {
        return false;
    }
    as_left();
    let job = *domain.asleep.job.lock();
    if let Some(job) = job {
        stack::for_job(job);
    }
    domain.asleep.ask.done();
    true
}

/// The value of `satp` on the domain's sleeping hart.
///
/// # Errors
///
/// [`Late`].
pub(crate) fn address_space(domain: &LiveDomain) -> Result<u64, Late> {
    let satp = spin::Mutex::new(0);
    run(domain, &|| *satp.lock() = csr::read::<{ csr::SATP }>())?;
    Ok(satp.into_inner())
}
