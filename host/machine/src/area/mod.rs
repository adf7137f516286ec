//! The sleep areas of a disk: their contents, configuration and snapshots.

mod configure;
mod find;
mod forecast;
mod inspect;
mod only;
mod report;
mod room;
pub mod snapshot;

pub use configure::{Change, Configured, configure};
pub use find::AreaError;
pub use inspect::{Questions, find_sleeping, inspect};
pub use only::check_only;
pub use report::{
    AreaReport, ConfigurationReport, ForecastReport, ImageReport, PartReport, SlotReport,
    SlotStatus, Verdict,
};
