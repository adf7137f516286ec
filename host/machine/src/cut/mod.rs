//! Cuts in a memory file: their records ([`look`], [`discard`]), and the end of a machine's run
//! ([`Ending`]).

mod ending;
mod record;
mod report;

pub use ending::{Ending, NotCut};
pub use record::{CutFileError, discard, look};
pub use report::{RecordReport, RecordState};
