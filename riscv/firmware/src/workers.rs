//! Worker harts: those that are stopped lend a hand with a save or a load, whose
//! coordinator is the hart that runs it.

use poorwill_arch::{interruptible, uninterrupted};
use poorwill_hart::{HsmState, JobGate, Request, Worker};
use poorwill_image::PowerFails;
use spin::{Mutex, Once};

use crate::hart::{self, this_hart};
use crate::platform::console::say;
use crate::platform::{platform, power_fail};

/// How long the coordinator waits, once its own run has ended, before it names the harts
/// that do not come back.
const PATIENCE_MS: u64 = 10_000;

/// How long the coordinator rests that waits for transfers: far less than those take
/// that fill the queue of a fast disk (16 MiB, at 7 GB/s 2.4 ms).
const PAUSE_NS: u64 = 100_000;

type Job<'a> = &'a (dyn Fn() + Sync);

/// Every hart that is stopped, and the caller as their coordinator.
///
/// A hart's stack leaves a job a few KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedHarts;

/// The job of the open round.
static JOB: Mutex<Option<Job<'static>>> = Mutex::new(None);

/// The gate that workers pass.
fn gate() -> &'static JobGate {
    static GATE: Once<JobGate> = Once::new();
    GATE.call_once(JobGate::new)
}

impl poorwill_image::Workers for StoppedHarts {
    /// # Panics
    ///
    /// When a run is under way. (A panic never unwinds: it resets the machine.)
    fn run(&self, coordinate: &mut dyn FnMut(), work: Job<'_>) {
        // SAFETY: only harts within the gate use the reference, and this call
        // returns only when the gate is closed and the last has left.
        let lent = unsafe { core::mem::transmute::<Job<'_>, Job<'static>>(work) };
        *JOB.lock() = Some(lent);
        gate().open().expect("one hart coordinates a job");
        self.call();
        coordinate();
        gate().close();
        wait_for_all();
        *JOB.lock() = None;
    }

    fn go_on(&self) -> Result<(), PowerFails> {
        match power_fail::goes_on() {
            true => Ok(()),
            false => Err(PowerFails),
        }
    }

    fn call(&self) {
        hart::others()
            .filter(|hart| hart.state() == HsmState::Stopped)
            .for_each(|hart| hart.send_ipi(Request::Job));
    }

    /// A hart that polls without a pause takes from a machine under an emulator or
    /// a hypervisor the time in which that does the transfers, and warms any other.
    fn pause(&self) {
        let time = &platform().time;
        let until = time.ticks().saturating_add(time.ticks_in(PAUSE_NS));
        uninterrupted(|| this_hart().timer().rest_until(until));
    }

    fn idle(&self) {
        // An IPI that came in since the hart last looked is pending still, and
        // ends the wait at once.
        uninterrupted(|| this_hart().wait_for_ipi());
    }
}

/// Waits until nobody is within the gate. Where the power fails each ends its work at its next
/// look, within a page's, and stops: nothing but their end ends this, as they use what is lent
/// to them. Harts that are long about it are named, and
/// waited for all the same: they may still write to memory, and an image that was consumed
/// for this wake is worth more than an end to the wait.
fn wait_for_all() {
    let time = &platform().time;
    let mut began = time.ticks();
    loop {
        let inside = gate().inside();
        if inside == 0 {
            return;
        }
        if time.milliseconds_since(began) > PATIENCE_MS {
            say!("{inside} harts do not come back from their work");
            began = time.ticks();
        }
        core::hint::spin_loop();
    }
}

/// Does the job that is going, if there is one and this worker has not done it yet.
/// Says whether it did.
pub(crate) fn work(worker: &mut Worker) -> bool {
    let Some(inside) = worker.enter(gate()) else {
        return false;
    };
    let job = *JOB.lock();
    if let Some(job) = job {
        // SAFETY: a job keeps nothing from the OS's timer.
        unsafe { interruptible(0, job) };
    }
    drop(inside);
    true
}
