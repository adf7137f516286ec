//! Two harts start each other without a pause, and a third one parks their domain meanwhile. When it
//! comes back, no other hart may run: one that had run on would still start the other. In another
//! role a single hart is started after each sleep.

use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, Ordering};

use poorwill_bare::{hart::time, suspend};
use sbi_spec::binary::RET_ERR_ALREADY_AVAILABLE;
use sbi_spec::hsm::{EID_HSM, HART_START, HART_STOP, hart_state};

use crate::output::say;
use crate::probe::{set_timer, spin};
use crate::sleep::{AWAKE, pause};

/// A hart of the race. The loop below knows the offsets.
#[repr(C)]
struct Racer {
    /// ID of the hart that it starts.
    other: AtomicU64,
    /// Address of that hart's racer.
    others_racer: AtomicU64,
    /// Starts of this hart.
    starts: AtomicU64,
}

impl Racer {
    const fn new() -> Self {
        Racer {
            other: AtomicU64::new(0),
            others_racer: AtomicU64::new(0),
            starts: AtomicU64::new(0),
        }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).expose_provenance()
    }
}

static RACERS: [Racer; 2] = [const { Racer::new() }; 2];

/// Rounds between two lines.
const TOLD: u64 = 500;

/// Starts after a sleep, the time between them, and the limit of each, in units of 100 ns.
const STARTS: u64 = 25;
const APART: u64 = 5_000;
const LIMIT: u64 = 10_000;

/// Time in which a hart that runs on would start the other, in units of 100 ns.
const LOOK: u64 = 100;

// A racer, without a stack: a1 = its `Racer`. It starts the other one as soon as that one has stopped,
// and stops. If it may not start it, it stops, too.
global_asm!(
    ".balign 4",
    "races:",
    "mv   s0, a1",
    "ld   t0, 16(s0)",
    "addi t0, t0, 1",
    "sd   t0, 16(s0)",
    "1:",
    "ld   a0, 0(s0)",
    "lla  a1, races",
    "ld   a2, 8(s0)",
    "li   a6, {start}",
    "li   a7, {extension}",
    "ecall",
    "li   t0, {already}",
    "beq  a0, t0, 1b",
    "li   a6, {stop}",
    "li   a7, {extension}",
    "ecall",
    "j    1b",
    start = const HART_START,
    stop = const HART_STOP,
    extension = const EID_HSM,
    already = const RET_ERR_ALREADY_AVAILABLE as isize,
);

unsafe extern "C" {
    safe fn races();
}

/// Races with the harts `first` and the next one; parks for `sleep` units of 100 ns, again and again.
pub(crate) fn run(first: u64, sleep: u64) {
    for (racer, other) in [(0, 1), (1, 0)] {
        let other_hart = first + other as u64;
        RACERS[racer].other.store(other_hart, Ordering::Relaxed);
        let address = RACERS[other].address() as u64;
        RACERS[racer].others_racer.store(address, Ordering::Relaxed);
    }
    for round in 1.. {
        if let Err(what) = one(round, first, sleep) {
            return say(format_args!("FAIL: round {round}: {what}"));
        }
        if round % TOLD == 0 {
            let [first, second] = starts();
            say(format_args!("raced {round}: {first} and {second} starts"));
        }
    }
}

/// Parks for `sleep` units of 100 ns again and again, and starts the hart `other` some times after each
/// sleep. That one stops at once, as its partner's ID is no hart's.
pub(crate) fn start(other: u64, sleep: u64) {
    RACERS[0].other.store(u64::MAX, Ordering::Relaxed);
    loop {
        pause(AWAKE);
        set_timer(time() + sleep);
        if let Err(error) = suspend() {
            return say(format_args!("FAIL: a park answers {error}"));
        }
        let longest = (0..STARTS).map(|_| start_once(other)).max();
        // The firmware's lines about the wake come first.
        pause(AWAKE);
        match longest.unwrap_or_default() {
            ticks @ ..=LIMIT => say(format_args!("each start takes at most {ticks} ticks")),
            ticks => say(format_args!("FAIL: a start takes {ticks} ticks")),
        }
    }
}

/// Starts a hart, and returns how long it takes until that runs.
fn start_once(other: u64) -> u64 {
    pause(APART);
    let entry = races as *const () as usize;
    let ([before, _], began) = (starts(), time());
    let started = sbi_rt::hart_start(other as usize, entry, RACERS[0].address());
    if started.is_err() {
        return u64::MAX;
    }
    while starts()[0] == before {}
    time() - began
}

/// One round of the race.
fn one(round: u64, first: u64, sleep: u64) -> Result<(), &'static str> {
    let entry = races as *const () as usize;
    let started = sbi_rt::hart_start(first as usize, entry, RACERS[0].address());
    started.map_err(|_| "a stopped hart does not start")?;
    // The park meets each point of the loop.
    spin(round % 64 * 8);
    set_timer(time() + sleep);
    suspend().map_err(|_| "the park is refused")?;
    let parked = starts();
    spin(LOOK);
    let is_stopped =
        |hart| sbi_rt::hart_get_status(hart as usize).ok() == Some(hart_state::STOPPED);
    if !is_stopped(first) || !is_stopped(first + 1) || starts() != parked {
        return Err("a hart ran on while the domain was parked");
    }
    Ok(())
}

fn starts() -> [u64; 2] {
    [&RACERS[0], &RACERS[1]].map(|racer| racer.starts.load(Ordering::Relaxed))
}
