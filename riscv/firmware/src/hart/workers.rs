//! Worker harts: stopped harts that help with a save or a load. The coordinator is the hart that
//! runs it.

use poorwill_arch::{interruptible, uninterrupted};
use poorwill_hart::{HsmState, JobGate, Request, Worker};
use poorwill_image::PowerFails;
use spin::{Mutex, Once};

use crate::hart::{self, this_hart};
use crate::platform::console::say;
use crate::platform::{platform, power_fail};

/// Time after the coordinator's own part before it reports late workers.
const PATIENCE_MS: u64 = 10_000;

/// Reports of late workers after which the machine is reset. A worker's part takes milliseconds.
const LATE_REPORTS: u32 = 6;

/// Rest of a coordinator that waits for transfers. It is far shorter than a full queue of a fast
/// disk takes (16 MiB at 7 GB/s: 2.4 ms).
const PAUSE_NS: u64 = 100_000;

type Job<'a> = &'a (dyn Fn() + Sync);

/// The stopped harts of domains that do not run as workers, and the caller as their coordinator.
///
/// A job may use a few KiB of a worker's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedHarts;

/// The work in progress.
#[derive(Default)]
struct Work {
    gate: JobGate,
    job: Mutex<Option<Job<'static>>>,
}

fn current() -> &'static Work {
    static WORK: Once<Work> = Once::new();
    WORK.call_once(Work::default)
}

fn gate() -> &'static JobGate {
    &current().gate
}

impl poorwill_image::Workers for StoppedHarts {
    /// # Panics
    ///
    /// If a run is in progress. (A panic never unwinds: it resets the machine.)
    fn run(&self, coordinate: &mut dyn FnMut(), work: Job<'_>) {
        // SAFETY: only harts inside the gate use the reference; this call returns only after the
        // gate is closed and the last worker has left.
        let lent = unsafe { core::mem::transmute::<Job<'_>, Job<'static>>(work) };
        *current().job.lock() = Some(lent);
        gate().open().expect("one hart coordinates a job");
        self.call();
        coordinate();
        gate().close();
        wait_for_all();
        *current().job.lock() = None;
    }

    fn go_on(&self) -> Result<(), PowerFails> {
        power_fail::check()
    }

    fn call(&self) {
        hart::others()
            .filter(|hart| hart.state() == HsmState::Stopped && hart.domain().state.is_at_rest())
            .for_each(|hart| hart.send_ipi(Request::Job));
    }

    /// Rests instead of polling. A polling hart takes time from an emulator or a hypervisor that
    /// does the transfers, and heats other machines.
    fn pause(&self) {
        let time = &platform().time;
        let until = time.ticks().saturating_add(time.ticks_in(PAUSE_NS));
        uninterrupted(|| this_hart().timer().rest_until(until));
    }

    fn idle(&self) {
        // An IPI that came since the last check is still pending, and ends the wait at once.
        uninterrupted(|| this_hart().wait_for_ipi());
    }
}

/// Waits until the gate is empty. If the power fails, each worker ends its work at its next check,
/// within a page. Late workers are reported and still waited for: they use borrowed memory, and the
/// image may be consumed already. If they stay away, only a reset can end that: before the commit
/// there is no image, and the next start names a load that did not end.
fn wait_for_all() {
    let time = &platform().time;
    let mut began = time.ticks();
    let mut reports = 0;
    loop {
        let inside = gate().inside();
        if inside == 0 {
            return;
        }
        if time.milliseconds_since(began) > PATIENCE_MS {
            say!("{inside} worker harts are late");
            began = time.ticks();
            reports += 1;
            assert!(
                reports < LATE_REPORTS,
                "{inside} worker harts do not return"
            );
        }
        core::hint::spin_loop();
    }
}

/// Does the current job, if there is one and this worker has not done it yet. Returns whether it
/// did.
pub(crate) fn work(worker: &mut Worker) -> bool {
    let Some(inside) = worker.enter(gate()) else {
        return false;
    };
    // A stopped hart of a domain that runs by now serves its OS alone. This look comes after the
    // entry: the gate opens again only after the domain's release.
    let is_free = this_hart().domain().state.is_at_rest();
    let job = *current().job.lock();
    if let Some(job) = job.filter(|_| is_free) {
        // SAFETY: a job holds nothing that the OS's timer needs.
        unsafe { interruptible(0, job) };
    }
    drop(inside);
    true
}
