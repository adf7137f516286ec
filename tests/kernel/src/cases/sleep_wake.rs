//! Sleeps and wakes, with checks of all state that must survive.
//!
//! On the command line:
//! - `cycles=N` sleeps in a row
//! - `fill_mib=N` MiB of memory filled page by page
//! - `slept_ms=N` the least time that each sleep lasts
//! - `alarm_ms=N` a timer armed as an OS arms a wake alarm; a firmware whose sleep tests itself,
//!   such as OpenSBI's, needs one to wake
//! - `rtc_alarm_ms=N` the same with the real-time clock's alarm
//! - `late_ms=N` other harts stop only that long after the call
//! - `from_ram=1` the power stays on
//! - `from=other` sleeps on a hart other than the one that booted
//! - `key=N` a byte on the console ends each sleep, and is there to be read then
//! - `dma=1` a device that must write to memory while that is saved
//! - `foreign=1` some memory belongs to others
//! - `command_sets=1` the disk's controller was used with all its command sets
//! - `refusals=N` calls that fail, as the power does, before one must succeed

use crate::{
    arch::sleep::{self, Context, Outcome},
    check, clock, edu, foreign, irqchip,
    machine::Machine,
    memory::Memory,
    pci, say,
    state::{State, check_arguments},
    verdict::{self, check_error},
    workers,
};
use sbi_spec::binary::Error::Failed;

pub(super) fn run(machine: &Machine, hart: usize) {
    let other = workers::others(machine, hart).last();
    match (machine.option("from"), other) {
        (Some("other"), Some(other)) => workers::hand_over(machine, other, |machine, other| {
            say!("on hart {other}, with the boot hart stopped");
            cycles(machine, other);
            verdict::finish("sleep-wake")
        }),
        (Some("other"), None) => panic!("from=other needs a second hart"),
        _ => cycles(machine, hart),
    }
}

fn cycles(machine: &Machine, hart: usize) {
    let mut refusals = machine.number("refusals", 0);
    // The count is kept in memory alone: if that is lost, so is the count,
    // and the runner sees a start too many.
    for cycle in 1..=machine.number("cycles", 2) {
        let memory = || Memory::new(machine, machine.number("fill_mib", 64));
        let first = memory();
        let last = first.last_dense();
        let mut state = State::set_up(machine, hart, cycle, first);
        let mut context = Context::default();
        let opaque = (&raw const context).addr();
        say!(
            "cycle {cycle}: sleeping with {} bytes filled",
            state.filled_bytes()
        );
        let rtc_alarm_ms = machine.number("rtc_alarm_ms", 0) as u64;
        prepare(machine, hart);
        if machine.number("dma", 0) == 1 {
            edu::write_later(machine, last);
        }
        let has_foreign = machine.number("foreign", 0) == 1;
        if has_foreign {
            foreign::overwrite(machine);
        }
        let mut outcome = sleep::suspend(0, &mut context);
        while refusals > 0
            && let Outcome::Returned(answer) = outcome
        {
            refusals -= 1;
            check_error("a sleep that the power has ended", answer, &[Failed]);
            state.check_unchanged(machine, hart);
            say!("cycle {cycle}: refused, and as it was");
            state = State::set_up(machine, hart, cycle, memory());
            outcome = sleep::suspend(0, &mut context);
        }
        match outcome {
            Outcome::Returned(answer) => {
                check!(
                    false,
                    "cycle {cycle}: SUSP returned {:?}",
                    answer.into_result()
                );
                return;
            }
            Outcome::Woke(found) => {
                say!("cycle {cycle}: woke");
                check_arguments(&found, hart, opaque);
                let from_ram = machine.number("from_ram", 0) == 1;
                if rtc_alarm_ms > 0 {
                    clock::end_alarm(machine);
                }
                if has_foreign {
                    foreign::check_untouched(machine);
                }
                if let Some(key) = machine.option("key") {
                    let key = key.parse().expect("key=N is a byte");
                    irqchip::check_received(machine, key);
                }
                state.check_time(machine);
                state.check_after_wake(machine, hart, &found, from_ram);
            }
        }
    }
}

/// Sets the alarms, and has other harts stop later, as the command line says.
fn prepare(machine: &Machine, hart: usize) {
    if machine.number("command_sets", 0) == 1 {
        pci::select_all_command_sets(machine);
    }
    let alarm_ms = machine.number("alarm_ms", 0) as u64;
    if alarm_ms > 0 {
        let _ = sbi_rt::set_timer(machine.in_ms(alarm_ms));
    }
    let rtc_alarm_ms = machine.number("rtc_alarm_ms", 0) as u64;
    if rtc_alarm_ms > 0 {
        clock::set_alarm(machine, rtc_alarm_ms);
    }
    let late_ms = machine.number("late_ms", 0) as u64;
    if late_ms > 0 {
        for other in workers::others(machine, hart) {
            check!(workers::start(machine, other), "hart {other} starts");
            workers::stop_later(machine, other, late_ms);
        }
    }
}
