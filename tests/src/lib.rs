//! Tests on whole machines in QEMU.
//!
//! The plan is data (`plan.toml`): machines, disks, and rows. A row gives the guest, the faults to
//! inject, and the required end of each power-on. [`expand`] makes trials of the rows, one for each
//! combination, and [`run_trial`] runs one. `docs/testing.md` shows how to run a row, and how to
//! add one.
#![forbid(unsafe_code)]

mod boot_files;
mod console;
mod cores;
mod damage;
mod disks;
mod domains;
mod evidence;
mod expand;
mod faults;
mod forge;
mod frames;
mod gdb;
#[cfg(test)]
mod house;
mod instant;
mod intact;
#[cfg(test)]
mod kinds;
mod layout;
mod ledger;
#[cfg(test)]
mod licences;
#[cfg(test)]
mod mutants;
mod persistent;
mod plan;
#[cfg(test)]
mod pool;
mod power;
mod prepared;
pub mod prose;
mod setup;
mod snapshot;
mod soak;
mod stop_stacks;
mod suite;
mod tamper;
mod tree;
mod trial;
mod update;

pub use cores::{Cores, Host};
pub use domains::{Entries, Late, Others, Part, Seen, Wake, longest_refusal, wakes};
pub use expand::{Trial, ask_for_cuts, expand, soak_wakes};
pub use gdb::Gdb;
pub use ledger::Ledger;
pub use plan::{Plan, load_plan, read_plan};
pub use prepared::Prepared;
pub use setup::{Setup, command};
pub use suite::{is_chosen, number};
pub use trial::run_trial;
