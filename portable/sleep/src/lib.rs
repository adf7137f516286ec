//! Sleeping and waking: the decisions, and their order.
//!
//! Plain blocking code over one [`Machine`], which is the firmware or, in tests, a
//! fake. [`sleep()`] chooses the mode; [`persist`](mod@persist) saves the machine,
//! [`retain`] rests with its RAM powered; [`wake()`] finds an image at power-on and
//! brings it back, or says why the machine boots cold. [`Event`] has the words for
//! all of it. A sleep that is a [`cut`] leaves everything where it is.
//!
//! A sleep that saves is a chain of values, each made only from the one before:
//! [`Quiesced`], [`Captured`], [`Written`], [`Committed`](poorwill_store::Committed).
//! Switching the power off takes the last one.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

#[cfg(test)]
extern crate std;

mod area;
mod bar;
mod chain;
mod choice;
mod core_state;
pub mod cut;
mod device;
mod error;
mod event;
#[cfg(feature = "fake")]
pub mod fake;
mod machine;
mod persist;
mod report;
mod restore;
pub mod retain;
mod sealing;
mod sleep;
mod snapshot;
mod state;
mod text;
mod vault_state;
mod wake;
mod warm_reset;
mod work;

pub use bar::Bar;
pub use chain::{Captured, Quiesced, Written};
pub use core_state::{Core, Moment};
pub use device::{Device, LentMedium, MAX_DEVICES, MAX_MEDIA, MediumId};
pub use error::{
    AreaError, ColdBoot, NoSleep, NoWake, NotArmed, NotKept, Obstacle, Refusal, StateRefusal,
};
pub use event::{CutWake, Event, ImageUse, SleepReport, WakeReport};
pub use machine::{
    Checkpoint, Clock, Console, Devices, Domain, HasVault, Job, LentVault, Machine, Power,
    WakeVector, WarmReset,
};
pub use report::{Protection, Report, Startup};
pub use sleep::{Slept, sleep};
pub use state::PARTITIONS_SECTIONS;
pub use text::{REPORT_BYTES, ReportText};
pub use vault_state::{VaultFault, VaultState};
pub use wake::{Woke, wake};
pub use warm_reset::{BootAttempt, LoadMark, WARM_RESET_WORDS, WarmResetRecord};
pub use work::Work;
