//! The cases, by name.

mod bus;
mod calls;
mod census;
mod count;
mod counters;
mod cut;
mod dbcn;
mod devices;
mod endure;
mod entry;
mod fuzz;
mod handover;
mod instructions;
mod legacy;
mod lent;
mod lent_stacks;
mod mediated;
mod panic;
mod remains;
mod sbi;
mod seal_bench;
mod sleep_wake;
mod susp;
mod suspend_half;
mod traffic;
mod translated;
mod wild;

use crate::{check, machine::Machine, say};

/// Runs the case of that name on the boot hart `hart`.
///
/// # Panics
/// If there is no such case.
pub(crate) fn run(case: &str, machine: &Machine, hart: usize) {
    match case {
        "contexts" => wild::machine_contexts(machine),
        "alive" => check!(true, "the machine came up"),
        "sbi" => sbi::run(machine, hart),
        "census" => census::run(machine, hart),
        "calls" => calls::run(machine, hart),
        "fuzz" => fuzz::run(machine, hart),
        "instructions" => {
            if machine.number("armed", 0) == 1 {
                suspend_half::arm(machine);
            }
            instructions::run(machine, hart);
        }
        "handover" => handover::run(machine),
        "legacy" => legacy::run(machine, hart),
        "lent" => lent::run(machine, hart),
        "lent-calls" => lent::calls(machine),
        "lent-suspend" => suspend_half::run(machine, hart),
        "lent-endless" => lent::endless(machine),
        "lent-remapped" => lent::remapped(machine),
        "lent-stacks" => lent_stacks::run(machine),
        "lent-text" => lent::text(machine),
        "mediated" => mediated::run(machine, hart),
        "panic" => panic::run(machine, hart),
        "remains" => remains::run(machine),
        "wild" => wild::run(machine, hart),
        "susp-errors" => susp::errors(machine, hart),
        "susp-refused" => susp::refused(machine, hart),
        "sleep-wake" => sleep_wake::run(machine, hart),
        "endure" => endure::run(machine, hart),
        "entry" => entry::run(machine, hart),
        "seal-bench" => seal_bench::run(machine, hart),
        "count" => count::run(machine),
        "counters" => counters::run(machine),
        "cut" => cut::run(machine, hart),
        "devices" => devices::run(machine),
        "traffic" => traffic::run(machine, hart),
        "translated" => translated::run(machine),
        "dbcn" => dbcn::run(machine),
        "bus" => bus::run(machine, hart),
        _ => {
            say!(
                "cases: alive, census, contexts, sbi, calls, fuzz, instructions, handover, legacy, lent, lent-calls, lent-endless, lent-remapped, lent-stacks, lent-suspend, lent-text, mediated, panic, remains, wild, susp-errors, susp-refused, sleep-wake, endure, entry, seal-bench, count, counters, cut, devices, traffic, translated, dbcn, bus"
            );
            panic!("no case {case:?}; give one as case=NAME on the kernel command line");
        }
    }
}
