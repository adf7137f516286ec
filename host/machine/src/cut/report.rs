use poorwill_sleep::cut::{CutCause, CutReason, Look, Newest};
use serde::Serialize;

/// The record of a cut in a memory file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// The byte of the file at which it begins.
    pub offset: u64,
    /// The number of its newest cut.
    pub number: u64,
    /// What has become of that.
    pub state: RecordState,
    /// Why it cannot be gone on with, where there is a reason.
    pub reason: Option<String>,
    /// The OS had asked for it, as a sleep: its power did not fail.
    pub requested: Option<bool>,
    /// How many harts were running.
    pub harts: Option<usize>,
    /// How many the machine has.
    pub machine_harts: Option<usize>,
    /// Bytes of what was written down.
    pub bytes: Option<u64>,
    /// How long Stop took, in ticks of the machine's `time`.
    pub stop_ticks: Option<u64>,
}

/// What has become of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordState {
    /// The next power-on goes on with it.
    Whole,
    /// The next power-on goes on with it, if the machine's vault tells that it is whole,
    /// authentic and the latest.
    Tagged,
    /// It was begun, and not committed.
    Unfinished,
    /// It was committed, and memory does not hold what was.
    Damaged,
    /// It was gone on with, or given up.
    Consumed,
}

impl RecordReport {
    /// Of the newest cut of a record at that byte, of a machine with so many harts, of which
    /// so many were running.
    pub(super) fn new(
        offset: u64,
        newest: Newest,
        outcome: Result<Look, CutReason>,
        harts: usize,
        running: usize,
    ) -> Self {
        let report = outcome.ok().map(|look| look.report);
        let state = match outcome {
            _ if newest.is_consumed => RecordState::Consumed,
            Ok(look) if look.is_tagged => RecordState::Tagged,
            Ok(_) => RecordState::Whole,
            Err(CutReason::Damaged) => RecordState::Damaged,
            Err(_) => RecordState::Unfinished,
        };
        RecordReport {
            offset,
            number: newest.sequence,
            state,
            reason: outcome.err().map(|reason| reason.to_string()),
            requested: report.map(|report| report.cause == CutCause::Requested),
            harts: report.map(|_| running),
            machine_harts: report.map(|_| harts),
            bytes: report.map(|report| report.bytes),
            stop_ticks: report.map(|report| report.ticks),
        }
    }

    /// Whether the next power-on goes on with it, as far as can be told here.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self.state, RecordState::Whole | RecordState::Tagged)
    }

    /// Whether it was gone on with, or given up.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == RecordState::Consumed
    }
}
