//! Executes the mark that begins a trace of memory requests.
#![no_std]
#![no_main]

use core::fmt::Write;

use poorwill_guest_entry::{Arguments, STDERR, Stream, begin_trace, exit};

poorwill_guest_entry::start!(main);

/// Returns the exit status.
fn main(_arguments: Arguments) -> u8 {
    begin_trace();
    0
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    // Standard error may be closed, and the exit status tells the panic, too.
    let _ = writeln!(Stream(STDERR), "trace-mark: {info}");
    exit(101)
}
