//! Random instructions in all modes below machine mode, with all features that the firmware lets an
//! OS turn on. None may end the machine, and each exception must come back to the OS. Afterwards
//! the checks of a hostile stage must still pass.
//!
//! On the command line: `count=N` instructions to complete in each mode, and `seed=N` for other
//! instructions. QEMU must count instructions (`-icount`), so that a run repeats, and `instret`
//! counts this hart only. Where machine mode emulates `instret`, it counts exceptions.
//!
//! S-mode's code does not change the state that keeps this kernel in control of the hart
//! (`generate.rs`), and makes no calls.

mod causes;
mod generate;
mod protection;
mod trial;

use super::wild;
use crate::{
    arch::{self, os_csr, sandbox},
    check,
    machine::Machine,
    say, workers,
};
use arrayvec::ArrayVec;
use causes::Hart;
use core::fmt::{self, Display};
use protection::is_firmware_closed;
use trial::Trial;

pub(super) fn run(machine: &Machine, hart: usize) {
    let count = machine.number("count", 20_000);
    let seed = machine.number("seed", 1) as u64;
    let saved = Saved::take();
    let this = Hart::this();
    saved.put_back();
    say!("instructions: {this:?}, count={count} seed={seed}");
    sandbox::set_up(this.has_hypervisor);
    let mut seen = 0;
    for &mode in this.modes() {
        let mut trial = Trial::new(machine, this, mode, seed);
        while trial.completed < count {
            trial.page();
        }
        say!(
            "instructions: mode={mode:?} completed={} trapped={} interrupted={} seen: {}",
            trial.completed,
            trial.trapped,
            trial.interrupted,
            Causes(trial.seen),
        );
        seen |= trial.seen;
        saved.put_back();
    }
    judge(this, seen);
    // No timer is pending that the checks below do not set.
    let _ = sbi_rt::set_timer(u64::MAX);
    arch::quiet();
    if is_firmware_closed(machine) {
        wild::run(machine, hart);
    } else {
        workers::check_all(machine, hart);
    }
}

/// Each exception was seen, or is known not to come.
fn judge(this: Hart, seen: u64) {
    for cause in 0..64 {
        let was_seen = seen >> cause & 1 != 0;
        match this.out_of_reach(cause) {
            None => check!(was_seen, "exception {cause} was never seen"),
            Some(why) => check!(!was_seen, "exception {cause} was seen, though {why}"),
        }
    }
    let unseen = (0..24).filter(|&cause| this.out_of_reach(cause).is_some());
    for cause in unseen {
        let why = this.out_of_reach(cause).unwrap_or_default();
        say!("instructions: out of reach: {cause}, as {why}");
    }
}

/// The exceptions of a mask.
struct Causes(u64);

impl Display for Causes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = (0..64).filter(|cause| self.0 >> cause & 1 != 0);
        all.try_for_each(|cause| write!(formatter, "{cause} "))
    }
}

/// CSRs as they were.
struct Saved(ArrayVec<(u16, usize), 64>);

impl Saved {
    fn take() -> Self {
        let there = |&number: &u16| Some((number, os_csr::read(number).ok()?));
        let all = os_csr::SETTABLE.iter().chain(&os_csr::OF_GUESTS);
        Saved(all.filter_map(there).collect())
    }

    fn put_back(&self) {
        for &(number, value) in &self.0 {
            // What cannot be written was not changed either.
            let _ = os_csr::write(number, value);
        }
    }
}
