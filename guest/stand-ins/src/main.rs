//! `stand-in PROGRAM PROCESSES`: one of the processes of a program, which runs until it is killed.
//! The processes meet in a file of the current folder. Each keeps to a hart of its own.
#![no_std]
#![no_main]

use core::ffi::CStr;
use core::fmt::{self, Write};

use poorwill_guest_entry::{Arguments, STDERR, Shared, Stream, begin_trace, exit};
use poorwill_stand_ins::{NARROW, PROGRAMS, Stage, WIDE, named};
use rustix::thread::{CpuSet, sched_setaffinity};

poorwill_guest_entry::start!(main);

const FILE: &CStr = c"stand-in.memory";

/// Returns the exit status.
fn main(arguments: Arguments) -> u8 {
    let words = [1, 2].map(|at| arguments.get(at).and_then(|word| word.to_str().ok()));
    let [name, processes] = words;
    let program = name.and_then(named);
    let processes = processes.and_then(|count| count.parse::<usize>().ok());
    let Some((program, processes)) = program.zip(processes) else {
        say(format_args!("usage: stand-in PROGRAM PROCESSES; programs:"));
        for (known, _) in PROGRAMS {
            say(format_args!("{known}"));
        }
        return 2;
    };
    let shared = match Shared::map(FILE, WIDE, NARROW) {
        Ok(shared) => shared,
        Err(error) => {
            say(format_args!("the shared file cannot be mapped: {error}"));
            return 1;
        }
    };
    let (wide, narrow) = (shared.wide, shared.narrow);
    let stage = Stage::new(wide, narrow, processes, u64::MAX, begin_trace);
    let mut hart = CpuSet::new();
    hart.set(stage.team.number());
    if let Err(error) = sched_setaffinity(None, &hart) {
        say(format_args!("hart {}: {error}", stage.team.number()));
        return 1;
    }
    program(stage);
    0
}

/// Writes a line to standard error. If that fails, there is no other place for it.
fn say(what: fmt::Arguments<'_>) {
    let _nobody_listens = writeln!(Stream(STDERR), "stand-in: {what}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    say(format_args!("{info}"));
    exit(101)
}
