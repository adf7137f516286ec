//! Checks that memory contents of an earlier sleep are gone: `fill_mib=N` as in that sleep.

use crate::{check, machine::Machine, memory::Memory};

pub(super) fn run(machine: &Machine) {
    let memory = Memory::new(machine, machine.number("fill_mib", 64));
    let remains = memory.remains(1);
    check!(remains == 0, "{remains} pages are left of the first sleep");
    // What is looked for would be found.
    memory.fill(1);
    check!(memory.remains(1) > 0, "and pages that are filled are seen");
}
