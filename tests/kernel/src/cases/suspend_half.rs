//! The suspend half: a trigger stops each hart where the OS begins to suspend its devices, and a weak
//! hart then runs all of them. Breakpoints of the OS itself arrive as without a trigger.
//!
//! On the command line: `rounds=N` breakpoints of each kind and hart.

use super::{
    lent::{give_back, sleep_once},
    wild,
};
use crate::{
    arch::translated,
    check,
    described::{self, Breakpoint},
    machine::Machine,
    say, workers,
};

/// What the function that begins a suspend returns.
const ANSWER: usize = 42;

/// Sleeps once, so that the firmware finds the function, and arms the triggers.
pub(super) fn arm(machine: &Machine) {
    described::set_up();
    translated::turn_on();
    sleep_once(machine, 1);
    give_back();
}

/// Breakpoints of both lengths.
fn breakpoints() -> [Breakpoint; 2] {
    [false, true].map(described::breakpoint)
}

/// Compares many breakpoints with one of before.
fn storm(rounds: usize, before: [Breakpoint; 2]) {
    let different = (0..rounds).filter(|_| breakpoints() != before).count();
    let now = breakpoints();
    check!(
        different == 0,
        "{different} of {rounds} breakpoints differ: {before:x?}, {now:x?}"
    );
}

/// Begins a suspend on the calling hart.
fn begin() {
    translated::with(|| {
        let answer = described::begin_suspend();
        check!(answer == ANSWER, "the function answers {answer}");
    });
}

pub(super) fn run(machine: &Machine, hart: usize) {
    let rounds = machine.number("rounds", 2000);
    let before = breakpoints();
    arm(machine);
    // Harts that start now are armed, too. They and this one come to their trigger in turn.
    let storms = || {
        storm(rounds, before);
        begin();
        give_back();
        storm(rounds, before);
    };
    storms();
    say!("hart {hart}: breakpoints arrive as before");
    for other in workers::others(machine, hart) {
        workers::on(machine, other, &storms);
        say!("hart {other}: breakpoints arrive as before");
    }
    attack(machine, hart);
}

/// All harts are lent, and none reaches what its own PMP closes.
fn attack(machine: &Machine, hart: usize) {
    let closed = || {
        wild::closed_data(machine);
        wild::closed_devices(machine);
    };
    workers::with_all(machine, hart, &closed, |all| {
        begin();
        all();
        wild::machine_contexts(machine);
        give_back();
    });
    say!("all harts were lent and given back");
}
