//! Keeper of NVMe controllers (NVM Express base specification 2.0).
//!
//! A controller's I/O queues live in it alone, so none can be put back as it was. One that
//! serves an OS has its admin queue told instead that it had an internal error, by the event
//! that the driver has a request pending for: drivers reset it then, and issue again all
//! that was not completed. While a driver only sets a controller up it waits for no event:
//! then the commands that made it what it is are executed [again](replay).

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
