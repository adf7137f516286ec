//! Sleeps: a domain parks again and again, and the master puts the machine to sleep.

use core::arch::global_asm;

use poorwill_bare::hart::{time, wait};
use poorwill_bare::suspend;
use sbi_spec::susp::{EID_SUSP, SUSPEND};

use crate::attack;
use crate::output::say;
use crate::probe::{set_timer, write};
use crate::watch;

/// Time between two sleeps, and between two requests of the master, in units of 100 ns.
pub(crate) const AWAKE: u64 = 200_000;
pub(crate) const PERIOD: u64 = 10_000;

/// Pages of a large domain: 16 MiB. Bytes of a page.
const LARGE_PAGES: u64 = 4096;
const PAGE: u64 = 4096;

/// Parks, and says how long each sleep takes.
pub(crate) fn park(sleep: u64) {
    watch::fill();
    for number in 1.. {
        pause(AWAKE);
        let began = time();
        set_timer(began + sleep);
        match suspend() {
            Ok(()) => {
                let ticks = time() - began;
                say(format_args!("parked {number}: {ticks} of {sleep} ticks"));
                say_if_changed();
            }
            Err(error) => return say(format_args!("FAIL: a park answers {error}")),
        }
    }
}

/// Parks and wakes without a pause.
pub(crate) fn storm() {
    loop {
        set_timer(time());
        if let Err(error) = suspend() {
            return say(format_args!("FAIL: a park answers {error}"));
        }
    }
}

/// Asks for the machine's sleep in each period until it was refused this number of times, and says
/// how long the longest refusal took.
pub(crate) fn ask(refusals: u64) {
    let (mut refused, mut longest, mut slept) = (0, 0, 0);
    while refused < refusals {
        pause(PERIOD);
        let began = time();
        set_timer(began + PERIOD);
        match suspend() {
            Err(DENIED) => {
                longest = longest.max(time() - began);
                refused += 1;
            }
            // All others are parked for a moment.
            Ok(()) => slept += 1,
            Err(error) => return say(format_args!("FAIL: a sleep answers {error}")),
        }
    }
    say(format_args!(
        "refused: {refused} sleeps beside {slept} others, at most {longest} ticks"
    ));
}

/// Makes the domain's image large: writes to `LARGE_PAGES` pages from this address on.
pub(crate) fn enlarge(start: u64) {
    for page in 0..LARGE_PAGES {
        write(start + page * PAGE, 1);
    }
}

/// Asks for the machine's sleep in each period, and says how long each sleep takes.
pub(crate) fn master(sleep: u64) {
    watch::fill();
    let (mut slept, mut denied) = (0, 0);
    loop {
        pause(PERIOD);
        let began = time();
        set_timer(began + sleep);
        match suspend() {
            Ok(()) => {
                slept += 1;
                say(format_args!(
                    "slept {slept}: {} of {sleep} ticks, denied {denied}",
                    time() - began
                ));
                say_if_changed();
                denied = 0;
            }
            Err(DENIED) => denied += 1,
            Err(error) => return say(format_args!("FAIL: a sleep answers {error}")),
        }
    }
}

/// Says if a sleep did not keep the domain's memory.
fn say_if_changed() {
    let changed = watch::changed();
    if changed != 0 {
        say(format_args!("FAIL: a sleep changed {changed} words"));
    }
}

// Asks for a sleep, without a stack. The hart's resume address is the call itself.
global_asm!(
    ".balign 4",
    "asks_for_sleep:",
    "li   a0, 0",
    "lla  a1, asks_for_sleep",
    "li   a6, {suspend}",
    "li   a7, {extension}",
    "ecall",
    "j    asks_for_sleep",
    suspend = const SUSPEND,
    extension = const EID_SUSP,
);

unsafe extern "C" {
    safe fn asks_for_sleep();
}

/// Lets another hart wait in a request for sleep, and ends the domain meanwhile.
pub(crate) fn reset_amid(other: u64) {
    let entry = asks_for_sleep as *const () as usize;
    let answer = sbi_rt::hart_start(other as usize, entry, 0);
    if answer.error != 0 {
        return say(format_args!("FAIL: hart_start answers {:#x}", answer.error));
    }
    pause(AWAKE);
    attack::reset();
}

/// The SBI's error of a refused request.
pub(crate) const DENIED: isize = -4;

/// Waits, in units of 100 ns.
pub(crate) fn pause(ticks: u64) {
    let end = time() + ticks;
    set_timer(end);
    while time() < end {
        wait();
    }
}
