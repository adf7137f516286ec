//! Keeper of NVMe controllers (NVM Express base specification 2.0).
//!
//! A controller holds its I/O queues internally, so they cannot be restored. If the
//! controller serves an OS, Go instead reports an internal error, through the driver's
//! pending event request. The driver then resets the controller and repeats all
//! incomplete commands. A driver that is still setting a controller up has no event
//! request. For it, Go [repeats](replay) the setup commands.

mod admin;
mod go;
mod registers;
mod replay;
mod rings;
mod shutdown;
mod state;
mod stop;

pub(crate) use go::{announce, put_back};
pub use shutdown::shuts_down_within;
pub(crate) use state::{TAG, check};
pub(crate) use stop::{Stopping, begin};
