//! One sleep and its wake, for counts of the firmware's instructions.
//!
//! On the command line: `fill_mib=N` MiB of memory filled page by page, and `due=1` for a timer
//! that is due before the call: a sleep with the RAM powered ends as it begins.

use crate::{
    arch::{
        self,
        sleep::{self, Context, Outcome},
    },
    check,
    machine::Machine,
    memory::Memory,
    read_csr, say, write_csr,
};

/// The number of the only sleep, for the rule that memory is filled by.
const SLEEP: usize = 1;

pub(super) fn run(machine: &Machine) {
    let memory = Memory::beside_told(machine, machine.number("fill_mib", 64));
    memory.fill(SLEEP);
    if machine.number("due", 0) == 1 {
        let _ = sbi_rt::set_timer(0);
        write_csr!("sie", arch::TIMER);
    }
    let before = read_csr!("instret");
    let outcome = sleep::suspend(0, &mut Context::default());
    let now = read_csr!("instret");
    // Where the power was off, instructions are counted from the power-on.
    match outcome {
        Outcome::Woke(_) => say!(
            "count since_start={now} since_call={}",
            now.wrapping_sub(before)
        ),
        Outcome::Returned(answer) => {
            check!(false, "SUSP returned {:?}", answer.into_result());
        }
    }
    let wrong = memory.verify(SLEEP);
    check!(wrong == 0, "{wrong} pages are not as they were");
}
