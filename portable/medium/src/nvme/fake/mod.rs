//! A modelled controller: registers, queues, commands and namespaces. [`Hooks`] decide when and how it
//! answers, so each fault is a test's own.
#![allow(missing_docs, reason = "names that say it need no comment")]
#![allow(clippy::must_use_candidate, reason = "tests look at what they ask for")]

mod attached;
mod controller;
mod disk;
mod memory;
mod queue;
mod registers;

pub use attached::Attached;
pub use controller::{Answers, Core, FakeController, Hooks, Pending};
pub use disk::{Disk, Outcome, Space, places};
pub use memory::DeviceMemory;
pub use queue::{Command, QueuePair, identifier};
pub use registers::FakeRegisters;
