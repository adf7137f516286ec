//! `sbi-testing`'s suite.

use crate::{arch, check, console, machine::Machine, workers};

pub(super) fn run(machine: &Machine, hart: usize) {
    console::take_log_records();
    let mask = machine.harts.iter().fold(0, |mask, id| mask | 1 << id);
    let passed = sbi_testing::Testing {
        hartid: hart,
        hart_mask: mask,
        hart_mask_base: 0,
        delay: machine.timebase / 20,
    }
    .test();
    arch::quiet();
    check!(passed, "every test of sbi-testing passes");
    // The suite skips harts that are not stopped, with a warning only.
    workers::check_all(machine, hart);
}
