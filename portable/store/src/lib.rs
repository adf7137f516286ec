//! The sleep area.
//!
//! Finds sleep areas on a disk ([`find_areas`]), and keeps an area's two slots
//! ([`Area`]): which image may wake, once, and where the next one goes. Beside
//! them it keeps how the machine is to sleep ([`Configuration`]). Every step is
//! written and flushed before the next relies on it, so that the power may go at
//! any instant. [`sleep()`] and [`wake()`] are the whole protocol.
//! `docs/image-format.md` has the bytes and the states.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod area;
mod choice;
mod configuration;
mod failure;
mod gpt;
mod guards;
mod name;
mod record;
mod sleep;
mod wake;

pub use area::{
    Admitted, Area, CommitError, Committed, CommittedImage, MIN_AREA_BYTES, OpenSlot, Purpose,
    StoreError,
};
pub use choice::{NoImage, choose};
pub use configuration::{
    CONFIGURATION_VERSION, Configuration, ConfigurationError, DEFAULT_STAGE_DELAY_MS, Delay,
    DelayError, LONGEST_DELAY_MS, LONGEST_KEY_MS, SleepMode, SnapshotRules, UnknownMode,
};
pub use failure::Failure;
pub use gpt::{AREA_TYPE, AreaLocation, Areas, GptError, MAX_AREAS, find_areas};
pub use guards::{
    DiskChanged, GUARDED_BYTES, PartitionGuard, PartitionGuards, PartitionName, guard_partitions,
    unchanged,
};
pub use name::{NAME_BYTES, Name, NotAName};
pub use record::{
    DiscardReason, RECORD_VERSION, RecordError, SlotId, SlotRecord, SlotState, SlotStatus, Standing,
};
pub use sleep::{NoSleep, sleep};
pub use wake::{NoWake, Refusal, Wake, wake};
