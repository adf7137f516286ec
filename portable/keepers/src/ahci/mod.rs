//! Keeper of AHCI controllers (HBAs) with SATA disks (AHCI 1.3.1).
//!
//! A disk is given half of the time to finish what it was told to do: what is done needs
//! nothing more, and the interrupt at the end of Go has the driver find it done. Of what is
//! not done then:
//!
//! - Commands that were seen to be issued (in PxCI) are issued again at Go, whether the disk
//!   had begun them or not. The driver sees them as outstanding all the time, so their
//!   buffers are as they were.
//! - Queued commands that were never seen in PxCI (only in PxSACT) are outstanding again,
//!   but not issued: a hart may be between its two writes, and a command that is issued
//!   twice may be executed when its buffer is another's already. If there is no such hart
//!   the driver resets the disk and repeats them, once its time-out of 30 s is over. Nothing
//!   is lost.
//!
//! What must never be: a command that was not done, and that neither register has. The
//! driver takes any interrupt as its completion.
//!
//! All disks are flushed with commands of the keeper's own. At Go those show, too, whether
//! the same disk is there, and whether its caches are to be turned on or off; and they leave
//! an interrupt pending, so that the driver looks. Not kept are other settings by SET
//! FEATURES (Linux turns on power management of the link, and what makes transfers faster),
//! DEVSLP and LEDs. A disk with a password is refused, as it is locked after a power-on;
//! port multipliers are, and coalesced completions.

mod command;
mod go;
mod hba;
mod registers;
mod saved;
mod stop;

pub(crate) use go::{announce, check, put_back};
pub(crate) use stop::{Stopping, begin};

/// Of its sections.
pub(crate) const TAG: &[u8; 3] = b"AHC";
