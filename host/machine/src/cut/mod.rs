//! Cuts in a memory file: reads and discards their records ([`look`], [`discard`]), and decides how
//! a machine's run ended ([`Ending`]).

mod ending;
mod record;
mod report;

pub use ending::{Ending, NotCut};
pub use record::{CutFileError, discard, look};
pub use report::{RecordReport, RecordState};
