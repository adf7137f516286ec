//! Raw disks: making them, telling whether one is in use, and looking at them as
//! a [`Medium`](poorwill_medium::Medium).

mod create;
mod file_medium;
mod gpt;
mod in_use;
mod kind;

pub use create::{DiskError, NewDisk};
pub(crate) use create::{PRIVATE, temporary_beside};
pub use file_medium::FileMedium;
pub(crate) use in_use::open_locked;
pub use in_use::{Holder, InUse, check_unused, holders};
pub use kind::{Kind, KindError, look_at};
