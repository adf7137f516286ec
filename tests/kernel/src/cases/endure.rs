//! Sleeps without an end, for a runner that cuts the power.
//!
//! A *life* lasts from one cold boot to the next: it has a random number, and its sleeps are its
//! *steps*. Both determine the contents of memory, so a page of another life or of an earlier step
//! is a wrong page. Numbers are printed in full width: a line that a power cut has shortened cannot
//! be taken for a whole one.

use crate::{
    arch::{
        self,
        sleep::{self, Context, Outcome},
    },
    clock,
    machine::Machine,
    memory::{Memory, mix},
    say,
    state::{State, check_arguments},
    verdict,
};

pub(super) fn run(machine: &Machine, hart: usize) {
    let life = new_life(machine);
    say!("endure: cold life={life:016x}");
    // Whether the machine sleeps or is refused: no step comes twice.
    for step in 1.. {
        let state = State::set_up(machine, hart, step, Memory::spread(machine, life));
        let mut context = Context::default();
        let opaque = (&raw const context).addr();
        say!("endure: sleep life={life:016x} step={step:06}");
        match sleep::suspend(0, &mut context) {
            Outcome::Woke(found) => {
                check_arguments(&found, hart, opaque);
                state.check_after_wake(machine, hart, &found, false);
                if verdict::failed() {
                    return;
                }
                say!("endure: woke life={life:016x} step={step:06}");
            }
            Outcome::Returned(answer) => {
                state.check_unchanged(machine, hart);
                if verdict::failed() {
                    return;
                }
                let error = answer.into_result();
                say!("endure: refused life={life:016x} step={step:06}: {error:?}");
            }
        }
    }
}

/// A number that no other cold boot has.
fn new_life(machine: &Machine) -> u64 {
    let clock = machine.clock.map_or(0, clock::read);
    let seed = machine
        .seed
        .iter()
        .fold(0u64, |sum, &byte| sum.rotate_left(8) ^ u64::from(byte));
    mix(seed ^ mix(clock ^ mix(arch::time())))
}
