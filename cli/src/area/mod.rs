//! Looking at the sleep areas of a disk, and at the images in them.

mod inspect;
mod report;

pub use inspect::{AreaError, find_sleeping, inspect};
pub use report::{AreaReport, ImageReport, SlotReport, SlotStatus, Verdict};
