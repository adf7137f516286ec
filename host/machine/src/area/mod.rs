//! The sleep areas of a disk: looking at them and at the images in them, and
//! choosing how their machine sleeps; what is done with snapshots.

mod configure;
mod find;
mod inspect;
mod only;
mod report;
pub mod snapshot;

pub use configure::{Change, Configured, configure};
pub use find::AreaError;
pub use inspect::{find_sleeping, inspect};
pub use report::{AreaReport, ConfigurationReport, ImageReport, SlotReport, SlotStatus, Verdict};
