//! Where Linux starts the program, and what only unsafe code can get at.

use core::arch::{asm, global_asm};
use core::ffi::{CStr, c_char};

use rustix::fd::BorrowedFd;
use rustix::stdio;

// SAFETY: whoever starts a program hands it these three open, and nothing here
// closes them.
pub(crate) const STDIN: BorrowedFd<'static> = unsafe { stdio::stdin() };
// SAFETY: as above.
pub(crate) const STDOUT: BorrowedFd<'static> = unsafe { stdio::stdout() };
// SAFETY: as above.
pub(crate) const STDERR: BorrowedFd<'static> = unsafe { stdio::stderr() };

// Linux leaves the count of arguments and their addresses on the stack, which it
// has aligned, and no address to return to.
global_asm!(
    ".globl _start",
    "_start:",
    "mv a0, sp",
    "li ra, 0",
    "call {start}",
    start = sym start,
);

/// `stack` is as Linux leaves it: the count of arguments, their addresses, and a
/// null pointer.
unsafe extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the caller's promise. The arguments stay where they are until the
    // program ends, and nobody writes to them.
    let argument = |index: usize| unsafe {
        let there = index < *stack;
        there.then(|| CStr::from_ptr(*stack.add(1 + index).cast::<*const c_char>()))
    };
    exit(crate::main(argument(1), argument(2)))
}

/// Ends the program.
pub(crate) fn exit(status: u8) -> ! {
    const EXIT_GROUP: usize = 94;
    // SAFETY: this call ends all that could be disturbed by it.
    unsafe {
        asm!("ecall", in("a7") EXIT_GROUP, in("a0") usize::from(status), options(noreturn, nostack));
    }
}
