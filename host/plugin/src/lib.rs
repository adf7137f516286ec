//! A TCG plugin for QEMU 10.0 that models what a power-fail cut is tested with, beside a
//! machine that knows nothing of it:
//!
//! - Write-back caches, one for each hart ([`cache`]). When the power goes, lines that
//!   are dirty fall back to what memory held, in the file that is the machine's RAM.
//! - The line that tells the firmware that power fails, a source of the machine's
//!   interrupt controller, raised at a time, at an instruction, or by a control socket.
//! - A hart that hears of it later than the others ([`deaf`]).
//! - A fair time base ([`time`]): one instruction is one nanosecond at every hart, and
//!   harts advance together. QEMU's own clock is the host's, and its `-icount` adds all
//!   harts' instructions to one. `time`, `cycle` and `instret` follow it.
//!
//! ```text
//! qemu-system-riscv64 -M virt,memory-backend=m
//!     -object memory-backend-file,id=m,size=64M,mem-path=RAM,share=on
//!     -accel tcg,thread=single -seed 7
//!     -plugin libpoorwill_plugin.so,ram=RAM,signal-at=5000000,hold-up=100000,report=FILE
//! ```
//!
//! [`Options`](options::Options) lists all arguments. At the end there is a
//! [`Report`](report::Report). If the guest switches the power off, or QEMU is told to
//! end, the exit status is QEMU's own; if the plugin cuts the power it is [`CUT`]; if the
//! plugin cannot go on, [`FAILED`].
//!
//! # Limits
//!
//! - Every instruction takes the same time, and neither caches nor buses make a hart
//!   wait. A device completes in the host's time, so that no claim about time may lie
//!   across input and output, and runs with it differ.
//! - Time stands still within a window of 1000 instructions: two reads of `time` may be
//!   the same. `cycle` and `instret`, and machine mode's own, count a hart's instructions,
//!   whatever `mcountinhibit` says; other counters are QEMU's.
//! - A cache operation counts also if it raises an exception, and operations by set and
//!   way, and those that only invalidate, count for nothing.
//! - A page walker's accessed and dirty bits reach memory at once where no line is dirty.
//! - Nothing changes at a reset: caches keep their lines, memory its contents.
//! - After the signal the first few blocks may still run with their loads unseen.
//!
//! The decisions are in modules that know nothing of QEMU; `qemu` is all that does, and
//! it refuses any QEMU but 10.0.

pub mod cache;
pub mod deaf;
pub mod instruction;
pub mod options;
pub mod report;
pub mod schedule;
pub mod time;

mod access;
mod clock;
mod control;
mod ending;
mod events;
mod install;
mod memory;
mod model;
mod qemu;
mod session;
mod signal;
mod translate;

pub use install::{qemu_plugin_install, qemu_plugin_version};
pub use session::FAILED;

/// QEMU's exit status if the power was cut: the hold-up ran out, or the time had come.
pub const CUT: i32 = 77;
