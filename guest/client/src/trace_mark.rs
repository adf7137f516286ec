//! Executes the mark that begins a trace of memory requests: the hint `slti x0, x0, 2000`, which
//! QEMU's plugin recognises (`host/plugin/src/trace`).
#![no_std]
#![no_main]

use core::arch::asm;
use core::fmt::Write;

use poorwill_guest_entry::{Arguments, STDERR, Stream, exit};

poorwill_guest_entry::start!(main);

/// Returns the exit status.
fn main(_arguments: Arguments) -> u8 {
    // SAFETY: a hint changes neither registers nor memory.
    unsafe {
        asm!(
            "slti x0, x0, 2000",
            options(nomem, nostack, preserves_flags)
        )
    };
    0
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    // Standard error may be closed, and the exit status tells the panic, too.
    let _ = writeln!(Stream(STDERR), "trace-mark: {info}");
    exit(101)
}
