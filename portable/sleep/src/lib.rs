//! Decides how a machine sleeps and wakes, and orders the steps.
//!
//! The code is plain and blocking, and works on one [`Machine`]: the firmware, or a fake in tests.
//! [`sleep()`] chooses the mode. [`persist`](mod@persist) saves the machine, [`retain`] keeps its
//! RAM powered, [`park`] lets a domain do that alone, and a [`cut`] leaves everything in persistent
//! RAM. A [`DomainSet`] orders the domains of a machine. [`wake()`] finds an image at
//! power-on and restores it, or returns the reason for a cold boot. [`Event`] has the console
//! lines.
//!
//! A save is a chain of values, each made only from the one before: [`Quiesced`], [`Captured`],
//! [`Written`], [`Committed`](poorwill_store::Committed). The power-off takes the last one.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

#[cfg(test)]
extern crate std;

mod area;
mod bar;
mod chain;
mod choice;
mod cold_start;
mod core_state;
pub mod cut;
mod device;
mod domain_state;
mod error;
mod event;
#[cfg(feature = "fake")]
pub mod fake;
mod in_use;
mod machine;
pub mod park;
mod persist;
mod plan;
mod report;
mod reset_row;
mod restore;
pub mod retain;
mod sealing;
mod set;
mod sleep;
mod snapshot;
mod state;
mod sync;
mod text;
mod vault_state;
mod wake;
mod warm_reset;
mod woken;
mod work;

pub use bar::Bar;
pub use chain::{Captured, Quiesced, Stopped, Written};
pub use cold_start::ColdStart;
pub use core_state::{Core, Moment};
pub use device::{Device, LentMedium, MAX_DEVICES, MAX_MEDIA, MediumId};
pub use domain_state::{DomainCell, DomainState, WrongDomainState};
pub use error::{
    AreaError, ColdBoot, NoSleep, NoWake, NotArmed, NotKept, Obstacle, Refusal, StateRefusal,
};
pub use event::{CutWake, Event, ImageUse, RamWake, Saves, SleepReport, WakeReport};
pub use in_use::{FunctionInUse, LeftInUse};
pub use machine::{
    Checkpoint, Clock, Console, Devices, Domain, HasVault, Job, LentVault, Machine, Outcome, Power,
    WarmReset,
};
pub use report::{Protection, Report, Startup};
pub use reset_row::{MAX_RESETS, RESET_ROW_WORDS, ResetRow};
pub use set::{DomainSet, Member, Remaining};
pub use sleep::{Slept, sleep};
pub use state::PARTITIONS_SECTIONS;
pub use text::{REPORT_BYTES, ReportText};
pub use vault_state::{VaultFault, VaultState};
pub use wake::{Cleared, Woke, discard_images, wake};
pub use warm_reset::{BootAttempt, LoadMark, WARM_RESET_WORDS, WarmResetRecord};
pub use work::Work;
