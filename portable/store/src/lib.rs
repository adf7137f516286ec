//! The sleep area.
//!
//! Finds sleep areas on a disk ([`find_areas`]) and manages an area's two slots
//! ([`Area`]): which image may wake, and where the next image goes. On a machine with
//! domains, a slot has a set of images ([`Parts`]). An area also stores
//! the machine's sleep [`Configuration`]. Every step is flushed before the next one
//! relies on it, so power may fail at any instant. The `sleep` crate has the order of the
//! steps. `docs/image-format.md` has the bytes and the states.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod admit;
mod area;
mod choice;
mod commit;
mod configuration;
mod content;
mod delay;
mod error;
mod failure;
#[cfg(feature = "fake")]
pub mod fake;
mod fingerprints;
mod gpt;
mod layout;
mod mode;
mod name;
mod parts;
mod record;
mod rules;
mod slot;
mod snapshot;

pub use admit::Admitted;
pub use area::{Area, CommittedImage};
pub use choice::{NoImage, choose};
pub use commit::{Committed, OpenSlot, Purpose};
pub use configuration::{
    CONFIGURATION_VERSION, Configuration, ConfigurationError, OLDEST_CONFIGURATION_VERSION,
};
pub use content::Content;
pub use delay::{DEFAULT_STAGE_DELAY_MS, Delay, DelayError, LONGEST_DELAY_MS, LONGEST_KEY_MS};
pub use error::{CommitError, StoreError};
pub use failure::Failure;
pub use fingerprints::{
    DiskChanged, DiskId, FINGERPRINTED_BYTES, PartitionDigest, PartitionFingerprint,
    PartitionFingerprints, PartitionName, UnguardedPartition, fingerprint_partitions, unchanged,
};
pub use gpt::{
    AREA_TYPE, AreaLocation, Areas, GptError, MAX_AREAS, MAX_PARTITIONS, find_areas, has_table,
};
pub use layout::MIN_AREA_BYTES;
pub use mode::{SleepMode, UnknownMode};
pub use name::{NAME_BYTES, Name, NotAName};
pub use parts::{MAX_PARTS, Part, PartError, Parts};
pub use record::{
    OLDEST_RECORD_VERSION, RECORD_VERSION, RecordError, RecordFormat, SlotRecord, SlotStatus,
};
pub use rules::SnapshotRules;
pub use slot::{BootAttempts, DiscardReason, SlotId, SlotState};
