//! What the firmware hands over at a cold boot beside the machine itself.

use crate::{arch::guard, check, machine::Machine, say};

pub(super) fn run(machine: &Machine) {
    report(machine);
    entropy(machine);
}

/// Says how the machine came up, as `/chosen/poorwill,boot` has it.
fn report(machine: &Machine) {
    let told = machine.boot_report.as_deref();
    say!("told: {}", told.unwrap_or("nothing"));
    check!(
        told.is_some_and(|told| told.starts_with("cold boot: ")),
        "the device tree says how the machine came up: {told:?}"
    );
    check!(
        machine.seed.iter().any(|byte| *byte != 0),
        "the device tree has a seed: {:x?}",
        machine.seed
    );
}

/// With `zkr=1` on the command line the seed CSR is open to S-mode.
fn entropy(machine: &Machine) {
    const STATE: usize = 3 << 30;
    const RANDOM: usize = 2 << 30;
    let read = guard::read_seed();
    if machine.number("zkr", 0) == 0 {
        check!(
            read == Err(guard::ILLEGAL_INSTRUCTION),
            "no seed CSR: {read:x?}"
        );
        return;
    }
    let random = |read: Result<usize, usize>| read.is_ok_and(|seed| seed & STATE == RANDOM);
    let more = [guard::read_seed(), guard::read_seed()];
    check!(
        random(read) && more.into_iter().all(random),
        "random bits: {read:x?}, {more:x?}"
    );
}
