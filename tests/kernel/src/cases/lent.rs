//! A wake on the weak hart: it closes to the OS what the OS's own hart closes, and takes the
//! interrupts of devices. The case ends with an
//! instruction that the weak hart does not know, so that the OS's hart continues.
//!
//! On the command line: `cycles=N` sleeps in a row.

use super::wild;
use crate::{
    arch::{
        self, guard,
        sleep::{self, Context, Outcome},
    },
    check, irqchip,
    machine::Machine,
    say, write_csr,
};

/// A timer ends each sleep after this part of a second.
const PARTS: u64 = 5;

pub(super) fn run(machine: &Machine, hart: usize) {
    for cycle in 1..=machine.number("cycles", 3) {
        let _ = sbi_rt::set_timer(arch::time() + machine.timebase / PARTS);
        write_csr!("sie", arch::TIMER);
        let mut context = Context::default();
        let outcome = sleep::suspend(0, &mut context);
        check!(
            matches!(outcome, Outcome::Woke(_)),
            "cycle {cycle}: no wake"
        );
        arch::quiet();
        let _ = sbi_rt::set_timer(u64::MAX);
        wild::closed_data(machine);
        wild::machine_contexts(machine);
        irqchip::take_console_interrupt(machine, hart);
        let csr = guard::read_machine_csr();
        check!(
            csr == Some(guard::ILLEGAL_INSTRUCTION),
            "read mstatus: {csr:?}"
        );
        say!("cycle {cycle}: lent and given back");
    }
}
