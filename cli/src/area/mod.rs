//! The sleep areas of a disk: looking at them and at the images in them, and
//! choosing how their machine sleeps.

mod configure;
mod find;
mod inspect;
mod report;

pub use configure::{Change, Configured, configure};
pub use find::AreaError;
pub use inspect::{find_sleeping, inspect};
pub use report::{AreaReport, ConfigurationReport, ImageReport, SlotReport, SlotStatus, Verdict};
