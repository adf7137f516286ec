//! A RISC-V hart as data, without access to one:
//!
//! - [`HartContext`]: the OS's state on it;
//! - [`HsmCell`]: its state in SBI's HSM extension;
//! - [`Mailbox`]: requests of other harts;
//! - [`JobGate`]: stopped harts that work for another, [`AskCell`]: one that rests, and does one
//!   job for another; and [`StackLock`]: the owner of a shared
//!   stack;
//! - [`HartTimer`]: its timers;
//! - [`Environment`]: its CSRs when an OS starts;
//! - [`trigger`]: a stop of the OS before one instruction;
//! - [`Gathering`]: harts of an OS that leave it at once;
//! - [`PageTables`]: its kernel's page tables;
//! - [`emulation`]: accesses that machine mode makes for it.
//!
//! This crate touches no CSR and no device register. The firmware implements [`CsrAccess`],
//! [`HartAccess`], [`TimerAccess`],
//! [`trigger::TriggerAccess`] and [`IpiDevice`]; the tests have models.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod ask;
mod context;
pub mod emulation;
mod environment;
#[cfg(feature = "fake")]
pub mod fake;
mod gathering;
mod hsm;
pub mod interrupt;
mod job_gate;
mod mailbox;
pub mod page_entry;
mod page_tables;
mod stack_lock;
mod sync;
mod timer;
pub mod trigger;

pub use ask::AskCell;
pub use context::{Bank, BankAccess, BankMisfit, MAX_RECORDS, PRIORITY_WORDS, RECORD_WORDS};
pub use context::{
    CaptureError, Csr, CsrAccess, CsrValue, Execution, FileWords, FloatRegisters, HartAccess,
    HartContext, MAX_FILE_WORDS, MAX_VLENB, Misfit, NotOfTheOs, Section, SectionError,
    VectorRegisters, section,
};
pub use environment::{Environment, Kept};
pub use gathering::{Arrived, Gathering, NotGathered, Others};
pub use hsm::{HsmCell, HsmState, LocalHsm, NotStarted, RemoteHsm, Starting, Task, WrongState};
pub use job_gate::{GateBusy, Inside, JobGate, Worker};
pub use mailbox::{IpiDevice, Mailbox, Request, Requests};
pub use page_tables::{Mapping, Mode, PageTables, Progression};
pub use stack_lock::StackLock;
pub use timer::{HartTimer, HeldTimer, NEVER, TimerAccess};
