//! Start and exit of the guest's programs, which have no libc. Also the system calls that need
//! unsafe code.
#![no_std]

mod shared;

use core::arch::asm;
use core::ffi::{CStr, c_char};
use core::fmt;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::{self, Errno};
use rustix::stdio;

pub use shared::Shared;

/// Standard input.
// SAFETY: Linux programs start with these three files open, and this crate does not close them.
pub const STDIN: BorrowedFd<'static> = unsafe { stdio::stdin() };
/// Standard output.
// SAFETY: as above.
pub const STDOUT: BorrowedFd<'static> = unsafe { stdio::stdout() };
/// Standard error.
// SAFETY: as above.
pub const STDERR: BorrowedFd<'static> = unsafe { stdio::stderr() };

/// The program's command line.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The stack as Linux passes it: the number of arguments, their addresses, and a null pointer.
    stack: *const usize,
}

impl Arguments {
    /// To be called by [`start!`] only.
    ///
    /// # Safety
    ///
    /// `stack` is the stack pointer that Linux started the program with.
    #[must_use]
    pub unsafe fn new(stack: *const usize) -> Self {
        Arguments { stack }
    }

    /// Argument number `index`; number 0 is the program's name.
    #[must_use]
    pub fn get(self, index: usize) -> Option<&'static CStr> {
        // SAFETY: the promise of `new`. The arguments stay in place, unchanged, until the program
        // ends.
        unsafe {
            let there = index < *self.stack;
            there.then(|| CStr::from_ptr(*self.stack.add(1 + index).cast::<*const c_char>()))
        }
    }
}

/// Makes `$main` the program's main function. It takes [`Arguments`], and returns the exit status.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        ::core::arch::global_asm!(
            ".globl _start",
            "_start:",
            "mv a0, sp",
            "li ra, 0",
            "call {start}",
            start = sym start,
        );

        unsafe extern "C" fn start(stack: *const usize) -> ! {
            // SAFETY: `_start`, above, passes the stack pointer that Linux set.
            let arguments = unsafe { $crate::Arguments::new(stack) };
            $crate::exit($main(arguments))
        }
    };
}

/// Ends the program.
pub fn exit(status: u8) -> ! {
    const EXIT_GROUP: usize = 94;
    // SAFETY: this call ends the whole program.
    unsafe {
        asm!("ecall", in("a7") EXIT_GROUP, in("a0") usize::from(status), options(noreturn, nostack));
    }
}

/// Executes the mark that begins a trace of memory requests: the hint `slti x0, x0, 2000`, which
/// QEMU's plugin recognises (`host/plugin/src/trace`).
pub fn begin_trace() {
    // SAFETY: a hint changes neither registers nor memory.
    unsafe {
        asm!(
            "slti x0, x0, 2000",
            options(nomem, nostack, preserves_flags)
        )
    };
}

/// Writes all of `bytes`.
///
/// # Errors
///
/// Linux's error; a part of `bytes` may have been written.
pub fn write_all(to: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = io::retry_on_intr(|| io::write(&to, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// A file to which formatted text can be written.
#[derive(Debug)]
pub struct Stream(pub BorrowedFd<'static>);

impl fmt::Write for Stream {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        write_all(self.0, text.as_bytes()).map_err(|_| fmt::Error)
    }
}
