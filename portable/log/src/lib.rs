//! The firmware's last lines, in memory that a reset keeps and an image carries, and as an
//! OS finds them: a text of fixed length in its device tree.
//!
//! Nothing here touches memory that is not given: the firmware says where a [`Log`] lies.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]
#![deny(clippy::let_underscore_must_use)]

mod log;
mod told;

pub use log::{Epitaph, LOG_BYTES, Log, MAX_LINE, TEXT_BYTES};
pub use told::{LogText, ToldLog};
