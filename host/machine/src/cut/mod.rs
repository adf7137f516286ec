//! What a cut leaves in a memory file: its record ([`look`], [`discard`]), and how a run of
//! its machine has ended ([`Ending`]).

mod ending;
mod record;
mod report;

pub use ending::{Ending, NotCut};
pub use record::{CutFileError, discard, look};
pub use report::{RecordReport, RecordState};
