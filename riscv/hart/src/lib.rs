//! A RISC-V hart, without any access to one: what it holds for the OS, as data
//! ([`HartContext`]); its state as SBI's HSM extension knows it ([`HsmCell`]); what
//! other harts ask of it ([`Mailbox`]); how stopped harts work for another
//! ([`JobGate`]), and who is on a stack that they share ([`StackLock`]); its timers
//! ([`HartTimer`]); what its CSRs hold when an OS starts ([`Environment`]); the page tables
//! that its kernel runs on ([`PageTables`]); and the accesses that machine mode makes for
//! it ([`emulation`]).
//!
//! No CSR and no device register is touched here. The firmware does that behind
//! [`CsrAccess`], [`HartAccess`], [`TimerAccess`] and [`IpiDevice`], and the tests have models of
//! them.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod context;
pub mod emulation;
mod environment;
#[cfg(feature = "fake")]
pub mod fake;
mod hsm;
pub mod interrupt;
mod job_gate;
mod mailbox;
mod page_tables;
mod stack_lock;
mod sync;
mod timer;

pub use context::{Bank, BankAccess, BankMisfit, MAX_RECORDS, PRIORITY_WORDS, RECORD_WORDS};
pub use context::{
    CaptureError, Csr, CsrAccess, CsrValue, Execution, FileWords, FloatRegisters, HartAccess,
    HartContext, MAX_FILE_WORDS, MAX_VLENB, Misfit, NotOfTheOs, Section, SectionError,
    VectorRegisters, section,
};
pub use environment::{Environment, Kept};
pub use hsm::{HsmCell, HsmState, LocalHsm, RemoteHsm, Resume, Starting, Task, WrongState};
pub use job_gate::{GateBusy, Inside, JobGate, Worker};
pub use mailbox::{IpiDevice, Mailbox, Request, Requests};
pub use page_tables::{Mode, PageTables};
pub use stack_lock::StackLock;
pub use timer::{HartTimer, HeldTimer, NEVER, TimerAccess};
