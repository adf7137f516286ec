//! Traces of memory requests, for models of memory.
//!
//! A mark begins: the first execution of `slti x0, x0, 2000` ([`MARK`]) by any hart. Then the caches
//! fill for `trace-skip` instructions, and the window of `trace-instructions` follows. Both count
//! instructions of the busiest hart, in steps of the time base's windows: up to 1000 instructions
//! more. The rest of the mark's own block of code is not recorded. When the window is full QEMU ends with [`TRACED`](crate::TRACED). If the guest ends before,
//! there is no trace, and QEMU's exit status is [`FAILED`](crate::FAILED).
//!
//! Traces of a cut have other windows (`trace-of`): `stop` reaches from the power-fail signal to the
//! power-off, and the caches fill from the power-on; `go` reaches from the power-on to the signal, at
//! which QEMU ends with [`TRACED`](crate::TRACED).
//!
//! The trace also counts what checkpoints would save: pages that programs access from the mark on, and
//! lines that they store between the ends of their functions (`ret`). A program's code has addresses in
//! the lower half that are translated, so neither the kernel's nor the firmware's counts.
//!
//! The caches have tags alone. `cbo.zero` counts as one store of a line.
//!
//! QEMU executes all harts in one thread, so the recording belongs to this thread, and no access
//! takes a lock. Code before the mark is translated without calls for its accesses.
//!
//! # Limits
//!
//! - After a switch of programs, the first return of a hart also has the lines of the program before.
//! - Accesses of page walkers and devices are not seen.
//! - `cbo.flush` leaves its line in the cache, as `cbo.clean` does. Flushes of a whole cache
//!   (T-Head's) are not recorded.
//! - A hart that waits for an interrupt executes nothing, so its idle time is not in the trace.

pub mod caches;
pub mod programs;
pub mod recorder;
pub mod window;

pub(crate) mod hooks;
pub(crate) mod tracer;

mod tags;

/// The number of the mark that begins a trace.
pub const MARK: u16 = 2000;
