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
mod record;
mod sleep;
mod wake;

pub use area::{
    Area, CommitError, Committed, CommittedImage, Consumed, MIN_AREA_BYTES, OpenSlot, StoreError,
};
pub use choice::{NoImage, choose};
pub use configuration::{
    Configuration, ConfigurationError, DEFAULT_STAGE_DELAY_MS, Delay, DelayError, LONGEST_DELAY_MS,
    SleepMode, UnknownMode,
};
pub use failure::Failure;
pub use gpt::{AREA_TYPE, AreaLocation, Areas, GptError, MAX_AREAS, find_areas};
pub use record::{DiscardReason, RecordError, SlotId, SlotRecord, SlotState, SlotStatus};
pub use sleep::{NoSleep, sleep};
pub use wake::{NoWake, Refusal, Wake, wake};
