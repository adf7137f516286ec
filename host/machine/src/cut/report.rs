use poorwill_sleep::cut::{CutCause, CutReason, Look, Newest};
use serde::Serialize;

/// The record of a cut in a memory file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordReport {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of the record's newest cut.
    pub number: u64,
    /// The state of that cut.
    pub state: RecordState,
    /// Why the cut cannot be resumed.
    pub reason: Option<String>,
    /// Whether the OS requested the cut, to sleep. If not, the power failed.
    pub requested: Option<bool>,
    /// Number of harts that were running.
    pub harts: Option<usize>,
    /// Number of the machine's harts.
    pub machine_harts: Option<usize>,
    /// Bytes written by the cut.
    pub bytes: Option<u64>,
    /// Time of Stop, in ticks of the machine's `time`.
    pub stop_ticks: Option<u64>,
    /// Ticks from the last quiet device to the commit, of these.
    pub after_ticks: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordState {
    /// The next power-on resumes it.
    Whole,
    /// The next power-on resumes it if the machine's vault proves it authentic and the latest.
    Tagged,
    /// It was begun, but not committed.
    Unfinished,
    /// It was committed, but memory does not match it.
    Damaged,
    /// It was resumed or discarded.
    Consumed,
}

impl RecordReport {
    /// The report on `newest`, from the record at `offset`. `harts` of the `machine_harts` were
    /// running.
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
            after_ticks: report.map(|report| report.after),
        }
    }

    /// Whether the next power-on resumes it, unless the vault objects.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self.state, RecordState::Whole | RecordState::Tagged)
    }

    /// Whether it was resumed or discarded.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == RecordState::Consumed
    }
}
