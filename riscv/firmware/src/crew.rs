//! The crew: stopped harts that lend a hand with a save or a load.

use core::sync::atomic::{AtomicU64, Ordering};

use poorwill_devicetree::MAX_HARTS;
use spin::Mutex;

use crate::arch;
use crate::hart::{self, Hart, State, this_hart};
use crate::platform::platform;
use crate::platform::time::rest_until;

/// How long the caller waits, once its own run has ended, for a hart that does
/// not come back.
const PATIENCE_MS: u64 = 10_000;

/// How long the lead rests that waits for transfers: far less than those take that fill
/// the queue of a fast disk (16 MiB, at 7 GB/s 2.4 ms).
const PAUSE_NS: u64 = 100_000;

type Job<'a> = &'a (dyn Fn() + Sync);

/// Every hart that is stopped, and the caller.
///
/// A hart's stack leaves a job a few KiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew;

/// The job of the open round.
static JOB: Mutex<Option<Job<'static>>> = Mutex::new(None);

static DOOR: Door = Door(AtomicU64::new(0));

impl poorwill_image::Crew for Crew {
    /// # Panics
    ///
    /// When a hart does not come back within [`PATIENCE_MS`] behind the
    /// caller's own run. (A panic never unwinds: it resets the machine.)
    fn run(&self, lead: &mut dyn FnMut(), help: Job<'_>) {
        // SAFETY: only harts within the door use the reference, and this call
        // returns only when the door is shut and the last has left.
        let lent = unsafe { core::mem::transmute::<Job<'_>, Job<'static>>(help) };
        *JOB.lock() = Some(lent);
        DOOR.open();
        self.call();
        lead();
        DOOR.shut();
        wait_for_all();
        *JOB.lock() = None;
    }

    fn call(&self) {
        hart::others()
            .filter(|hart| hart.state() == State::Stopped)
            .for_each(Hart::ring);
    }

    /// A hart that polls without a pause takes from a machine under an emulator or
    /// a hypervisor the time in which that does the transfers, and warms any other.
    fn pause(&self) {
        let time = &platform().time;
        let until = time.ticks().saturating_add(time.ticks_in(PAUSE_NS));
        rest_until(this_hart(), until);
    }

    fn rest(&self) {
        // A call that came in since the hart last looked is pending still, and
        // ends the wait at once.
        arch::wait_for_interrupt();
        this_hart().answer();
    }
}

/// Waits until nobody is within the door.
fn wait_for_all() {
    let time = &platform().time;
    let began = time.ticks();
    while let Some(place) = DOOR.first_within() {
        let waited = time.milliseconds_since(began);
        assert!(
            waited <= PATIENCE_MS,
            "hart {} does not come back from its work",
            platform().harts[place].id()
        );
        core::hint::spin_loop();
    }
}

/// A stopped hart's part in the crew.
#[derive(Debug)]
pub(crate) struct Helper {
    /// Which hart it is, by its place in the platform's list.
    place: usize,
    /// The round it helped with last.
    helped: u64,
}

impl Helper {
    /// The calling hart's.
    pub(crate) fn new() -> Self {
        let own = this_hart();
        let place = platform()
            .harts
            .iter()
            .position(|hart| core::ptr::eq(hart, own));
        Helper {
            place: place.expect("a hart's thread pointer points into the list"),
            helped: 0,
        }
    }

    /// Does the job that is going, if there is one and this hart has not done
    /// it yet. Says whether it did.
    pub(crate) fn help(&mut self) -> bool {
        let Some(round) = DOOR.enter(self.place, self.helped) else {
            return false;
        };
        self.helped = round;
        let job = *JOB.lock();
        if let Some(job) = job {
            job();
        }
        DOOR.leave(self.place);
        true
    }
}

/// Who is at work, in one word, so that nobody enters once the door is shut:
/// a bit for each hart within, the open bit, and the number of the round.
#[derive(Debug)]
struct Door(AtomicU64);

impl Door {
    const OPEN: u64 = 1 << MAX_HARTS;
    const ROUND: u64 = Self::OPEN << 1;
    const WITHIN: u64 = Self::OPEN - 1;

    /// Begins a round. Whatever was written before is seen by those who enter.
    ///
    /// # Panics
    ///
    /// When one is under way: rounds are not nested, and one hart calls them.
    fn open(&self) {
        let next = |word: u64| {
            let idle = word & (Self::OPEN | Self::WITHIN) == 0;
            idle.then_some((word + Self::ROUND) | Self::OPEN)
        };
        let opened = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, next);
        assert!(opened.is_ok(), "the crew is at work already");
    }

    /// Lets nobody in any more.
    fn shut(&self) {
        self.0.fetch_and(!Self::OPEN, Ordering::Relaxed);
    }

    /// Enters the open round, unless it is the one `helped` with; returns its
    /// number.
    fn enter(&self, place: usize, helped: u64) -> Option<u64> {
        let round = |word: u64| word / Self::ROUND;
        let within = |word: u64| {
            let wanted = word & Self::OPEN != 0 && round(word) != helped;
            wanted.then_some(word | 1 << place)
        };
        self.0
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, within)
            .ok()
            .map(round)
    }

    /// Leaves; what was done within is seen by whoever finds the place empty.
    fn leave(&self, place: usize) {
        self.0.fetch_and(!(1 << place), Ordering::Release);
    }

    /// The first hart that is within.
    fn first_within(&self) -> Option<usize> {
        let within = self.0.load(Ordering::Acquire) & Self::WITHIN;
        (within != 0).then(|| within.trailing_zeros() as usize)
    }
}
