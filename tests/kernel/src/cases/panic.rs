//! Makes the firmware panic, in a build with a call for it. The machine is reset, and the log of
//! the next start must name the panic.

use crate::{check, machine::Machine, say};
use sbi_rt::raw::sbi_call_1;

/// The extension that panics.
const PANIC: usize = 0x0a00_0000;

pub(super) fn run(machine: &Machine, hart: usize) {
    let cause = machine.number("cause", 9);
    let log = machine.log.as_deref().unwrap_or_default();
    if machine.number("always", 0) == 1 || !log.contains("panic on hart ") {
        say!("the firmware is asked to panic");
        // SAFETY: a call that does not come back, or does nothing.
        let answer = unsafe { sbi_call_1(PANIC, 0, cause) };
        check!(false, "it goes on: {answer:?}");
        return;
    }
    log.lines().for_each(|line| say!("log: {line}"));
    let trap = match cause {
        9 => "panic: last trap mcause=0x9 mepc=0x802",
        _ => "panic: last trap mcause=0x13 mepc=0x802",
    };
    let told = [
        "the previous boot panicked: panic on hart ",
        "panic at riscv/firmware/src/sbi/mod.rs:",
        trap,
    ];
    for line in told {
        check!(log.contains(line), "the log has {line:?}");
    }
    let starts = log.matches(" start\n").count();
    check!(
        starts == machine.number("starts", 2),
        "{starts} starts, on hart {hart} the last"
    );
}
