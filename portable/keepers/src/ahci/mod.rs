//! Keeper of AHCI controllers (HBAs) with SATA disks (AHCI 1.3.1).
//!
//! At Stop, a disk gets half of the time to finish its commands. A finished command needs
//! nothing more: the interrupt at the end of Go tells the driver. For unfinished
//! commands:
//!
//! - Commands in PxCI are issued again at Go, even if the disk had begun them. The driver
//!   sees them as outstanding all the time, so their buffers are unchanged.
//! - Queued commands that were only ever seen in PxSACT are outstanding again, but not
//!   issued. A hart may be between its two register writes, so issuing them could execute
//!   a command twice, after its buffer has other contents. If no hart is there, the
//!   driver resets the disk and repeats the commands after its time-out of 30 s. No data
//!   is lost.
//!
//! An unfinished command must always be in PxCI or PxSACT: otherwise the driver takes any interrupt
//! as its completion.
//!
//! The keeper flushes all disks with its own commands. At Go, such commands also verify
//! each disk's identity and restore its cache settings. They leave an interrupt pending,
//! so that the driver looks at its commands. Other SET FEATURES settings (Linux sets link
//! power management and faster transfers), DEVSLP and LEDs are not saved. Port
//! multipliers, coalesced completions and disks with a password, which are locked after a
//! power-on, are refused.

mod command;
mod go;
mod hba;
mod registers;
mod saved;
mod stop;

pub(crate) use go::{announce, check, put_back};
pub(crate) use stop::{Stopping, begin};

/// The tag of its sections.
pub(crate) const TAG: &[u8; 3] = b"AHC";
