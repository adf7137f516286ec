//! One file for each command; `main` parses and dispatches.

mod address;
pub(crate) mod area;
pub(crate) mod bench;
mod comparators;
pub(crate) mod cut;
pub(crate) mod demo;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod domains;
pub(crate) mod energy;
pub(crate) mod key;
pub(crate) mod memory;
pub(crate) mod psu;
mod rates;
pub(crate) mod report;
pub(crate) mod run;
mod sweep;
pub(crate) mod trace;

/// The help of `--firmware`.
const FIRMWARE_HELP: &str = "Firmware [default: $POORWILL_FIRMWARE, else build/poorwill.elf]";
