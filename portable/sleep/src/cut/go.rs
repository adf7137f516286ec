//! Go: from a power-on to the instruction at which the power failed.

use super::layout::Place;
use super::line::{Commit, Line, PartEntry};
use super::reason::CutReason;
use super::stop::{entries_digest, last_sequence};
use super::{CutMemory, put};

/// The machine that goes on.
pub trait GoMachine {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// What is needed to put everything back.
    type State;

    /// Reads all of the record, and finds that it fits this machine. Nothing is touched.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn check(&self) -> Result<Self::State, CutReason>;

    /// Waits until the power is good, and will hold up for another cut.
    fn wait_for_power(&self);

    /// Puts memory, devices and clocks back as they were. Done twice, it is done once: the
    /// power may fail midway.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a device is not what it was. None reaches memory then.
    fn restore(&self, state: Self::State) -> Result<(), CutReason>;
}

/// What is told of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutReport {
    /// Its number.
    pub sequence: u64,
    /// Bytes of the record's parts.
    pub bytes: u64,
    /// Ticks of `time` from the line to the commit.
    pub ticks: u64,
}

/// What a start finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No cut that the last start has not known of.
    Nothing,
    /// One that is to be gone on with.
    Cut(CutReport),
    /// One that is of no use.
    Refused(CutReason),
}

/// What the record says, and whether memory holds what it says.
#[must_use]
pub fn find(memory: &impl CutMemory) -> Found {
    match Newest::in_record(memory) {
        Some(cut) if !cut.is_consumed => match cut.report(memory) {
            Ok(report) => Found::Cut(report),
            Err(reason) => Found::Refused(reason),
        },
        _ => Found::Nothing,
    }
}

/// The newest cut that a record knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its number.
    pub sequence: u64,
    /// It was gone on with, or given up.
    pub is_consumed: bool,
}

impl Newest {
    /// The newest cut of a record, if there has been one.
    #[must_use]
    pub fn in_record(memory: &impl CutMemory) -> Option<Self> {
        let sequence = last_sequence(memory);
        let consumed = memory.line(Place::Consumed).read_consumed();
        (sequence > 0).then_some(Newest {
            sequence,
            is_consumed: consumed >= Some(sequence),
        })
    }

    /// What is told of it.
    ///
    /// # Errors
    ///
    /// Why it cannot be gone on with, whether it is consumed or not.
    pub fn report(&self, memory: &impl CutMemory) -> Result<CutReport, CutReason> {
        match memory.line(Place::Committed).read_committed() {
            Some((sequence, Commit { digest, ticks })) if sequence == self.sequence => {
                let bytes = whole_bytes(memory, sequence, digest).ok_or(CutReason::Damaged)?;
                Ok(CutReport {
                    sequence,
                    bytes,
                    ticks,
                })
            }
            _ => {
                let begun = memory.line(Place::Begun).read_begun();
                Err(begun.map_or(CutReason::Damaged, |(_, reason)| reason))
            }
        }
    }
}

/// Gives up whatever cut there is: the next start will know of none.
pub fn discard(memory: &impl CutMemory) {
    let consumed = Line::consumed(last_sequence(memory));
    put(memory, Place::Consumed, &consumed);
}

/// Bytes of all parts, if the entries are those that were committed, and the parts are what
/// these say.
fn whole_bytes(memory: &impl CutMemory, sequence: u64, digest: u64) -> Option<u64> {
    if entries_digest(memory, sequence) != Some(digest) {
        return None;
    }
    let parts = 0..memory.layout().parts();
    let bytes = parts.map(|part| {
        let (_, PartEntry { bytes, digest }) = memory.line(Place::Part(part)).read_part()?;
        (memory.digest(part, bytes) == Some(digest)).then_some(bytes)
    });
    bytes.sum()
}

/// That everything is as it was, and that the cut will not be gone on with again: the
/// harts may be released. Nothing else makes one.
#[derive(Debug)]
pub struct Ready(CutReport);

impl Ready {
    /// What is told of the cut.
    #[must_use]
    pub fn report(&self) -> CutReport {
        self.0
    }
}

fn put_back<M: GoMachine>(machine: &M) -> Result<(), CutReason> {
    let state = machine.check()?;
    machine.wait_for_power();
    machine.restore(state)
}

/// Goes on with a cut that was [found](find()), as far as the harts' release; or gives up
/// one that is of no use, or that does not fit.
///
/// # Errors
///
/// Why the machine boots cold; `None` where there is no cut.
pub fn go<M: GoMachine>(machine: &M) -> Result<Ready, Option<CutReason>> {
    let record = machine.record();
    let result = match find(record) {
        Found::Nothing => return Err(None),
        Found::Refused(reason) => Err(Some(reason)),
        Found::Cut(report) => put_back(machine).map(|()| Ready(report)).map_err(Some),
    };
    // From here on it is a cut that was.
    discard(record);
    result
}
