//! The state of harts and devices as sections of an image, or of the record of a cut.
//!
//! - [`kept!`] makes an owner's list of state; a list implements [`Keep`].
//! - [`sleeper`] has the state of the hart that asks for a sleep.
//! - [`part`] has a hart's part of a record, and [`HartStart`] its task there.
//! - [`banks`] has the banks of a hart, in either store.
//!
//! Nothing here touches hardware.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

pub mod banks;
mod kept;
pub mod part;
pub mod sleeper;
mod start;

pub use kept::{Keep, KeepValue, Saving, Section, Store, joined, total};
pub use start::HartStart;

/// What [`kept!`] uses of other crates.
#[doc(hidden)]
pub mod macro_support {
    pub use poorwill_image::{StateError, StateSections, StateWriter};
    pub use poorwill_sleep::NotKept;
}
