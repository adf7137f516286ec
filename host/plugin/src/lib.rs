//! A TCG plugin for QEMU 10.0 that models the environment of a power-fail cut, without changes to
//! the machine:
//!
//! - Write-back caches, one for each hart ([`cache`]). When the power ends, dirty lines in the file
//!   of the machine's RAM get back the contents of the RAM chips.
//! - The power-fail line, a source of the machine's interrupt controller. The plugin raises it at a
//!   time or at an instruction, or a program does so by the control socket.
//! - A hart that gets this interrupt later than the others ([`deaf`]).
//! - A fair time base ([`time`]): each instruction takes one nanosecond at each hart, and harts
//!   advance together. QEMU's own clock is the host's, and with `-icount` it counts all harts'
//!   instructions in one sum. `time`, `cycle` and `instret` follow the fair time base.
//! - A trace of the memory requests of a program ([`trace`]).
//!
//! ```text
//! qemu-system-riscv64 -M virt,memory-backend=m
//!     -object memory-backend-file,id=m,size=64M,mem-path=RAM,share=on
//!     -accel tcg,thread=single -seed 7
//!     -plugin libpoorwill_plugin.so,ram=RAM,signal-at=5000000,hold-up=100000,report=FILE
//! ```
//!
//! [`Options`](options::Options) lists all arguments. A [`log`] records harts' wakes, executions and
//! stores with their times. At the end the plugin writes a
//! [`Report`](report::Report). If the guest switches the power off, or a user ends QEMU, the exit
//! status is QEMU's own. If the plugin cuts the power it is [`CUT`], with a complete trace
//! [`TRACED`], and after an error of the plugin [`FAILED`].
//!
//! # Limits
//!
//! - All instructions take the same time, and neither caches nor buses delay a hart. Devices
//!   complete in the host's time, so intervals with input and output vary between runs. They prove
//!   nothing about a board.
//! - Time stands still within a window of 1000 instructions: two reads of `time` may be equal.
//!   `cycle` and `instret`, and machine mode's own, count a hart's instructions even if
//!   `mcountinhibit` is set. Other counters are QEMU's.
//! - A cache operation counts even if it raises an exception. Operations by set and way, and pure
//!   invalidations, are ignored.
//! - A page walker's accessed and dirty bits reach memory at once if the line is not dirty.
//! - A reset changes neither the caches nor memory.
//! - The plugin may miss loads in the first few blocks after the signal.
//!
//! All modules except `qemu` are independent of QEMU. `qemu` accepts QEMU 10.0 only.

#![allow(missing_docs, reason = "names that say it need no comment")]

pub mod cache;
pub mod deaf;
pub mod instruction;
pub mod log;
pub mod options;
pub mod report;
pub mod schedule;
pub mod time;
pub mod trace;

mod access;
mod clock;
mod control;
mod ending;
mod events;
mod flushed;
mod install;
mod memory;
mod model;
mod qemu;
mod session;
mod signal;
mod translate;

pub use install::{qemu_plugin_install, qemu_plugin_version};
pub use session::FAILED;

/// QEMU's exit status if the plugin cut the power, at the end of the hold-up.
pub const CUT: i32 = 77;

/// QEMU's exit status if a trace is complete.
pub const TRACED: i32 = 76;
