//! The executor: a weak hart, on which the OS's supervisor mode runs around a sleep with powered RAM.
//!
//! *The resume half*: the hart that wakes lends its state, and waits in machine mode. It takes its
//! state back before the first program, or before what the weak hart does not do. The weak hart also
//! starts, runs and stops the OS's other harts, in turns. These wait in machine mode, too, until all
//! are given back.
//!
//! *The suspend half*: a trigger stops the OS where it begins to suspend devices. All its running harts
//! lend their states. The half ends in the call for the sleep, which the lent hart serves.
//!
//! The weak hart interprets in machine mode, which its PMP does not bind. Each access therefore asks the lent hart's plan and its memory.
//! Lower privilege modes of the weak hart have no access at all: its PMP has no entry, and it never
//! enters them.

mod calls;
mod context;
mod hand_back;
mod host;
mod lend;
mod lent;
mod lower;
mod report;
mod suspend;
mod trigger;
mod weak;

#[cfg(feature = "hand-back")]
pub(crate) use lend::lend_again;
pub(crate) use lend::{is_lent, join, resume, take_started};
pub(crate) use lent::{release, start};
pub(crate) use lower::EXECUTOR_BYTES;
pub(crate) use suspend::end_trap;
pub(crate) use trigger::{arm, fires};
pub(crate) use weak::wait;
