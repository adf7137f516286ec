//! Finds the cut in the record at a start.

use super::guard::Guard;
use super::layout::Place;
use super::line::{Commit, CutCause, PartEntry};
use super::memory::CutMemory;
use super::proof::Proof;
use super::reason::CutReason;

/// Facts of a cut, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutReport {
    /// The number of the cut.
    pub sequence: u64,
    /// Bytes of the record's parts.
    pub bytes: u64,
    /// Ticks of `time` from the line, or the OS's call, to the commit.
    pub ticks: u64,
    /// Ticks of these from the last quiet device on.
    pub after: u64,
    /// The cause of the cut.
    pub cause: CutCause,
    /// Number of words of wear registers.
    pub wear_words: u64,
}

/// The result of the search at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No cut since the last start.
    Nothing,
    /// A cut to resume.
    Cut(CutReport),
    /// A cut that was not committed, or that cannot be resumed.
    Refused(CutReason),
}

/// Finds the newest cut in the record, and checks the record against memory.
#[must_use]
pub fn find(memory: &impl CutMemory, guard: &Guard) -> Found {
    match Newest::in_record(memory) {
        Some(cut) if !cut.is_consumed => match cut.report(memory, guard) {
            Ok(report) => Found::Cut(report),
            Err(reason) => Found::Refused(reason),
        },
        // After that cut the harts ran, or were about to be released.
        _ => running(memory).map_or(Found::Nothing, |sequence| {
            Found::Refused(CutReason::NoOther(sequence))
        }),
    }
}

/// The number of the resumed cut, if it is the newest in the record and the OS has not ended in an
/// orderly way since.
pub(super) fn running(memory: &impl CutMemory) -> Option<u64> {
    let running = memory.line(Place::Consumed).read_running();
    running.filter(|sequence| *sequence == last_sequence(memory))
}

/// The newest cut in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// The number of the cut.
    pub sequence: u64,
    /// The cut was resumed or discarded.
    pub is_consumed: bool,
}

/// Facts of the cut in a record, for a reader without the machine's vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// The reported facts.
    pub report: CutReport,
    /// The digests are tags. Only the vault can confirm that the record is complete, authentic and
    /// the latest.
    pub is_tagged: bool,
}

impl Newest {
    /// The newest cut of a record; `None` if there was no cut.
    #[must_use]
    pub fn in_record(memory: &impl CutMemory) -> Option<Self> {
        let sequence = last_sequence(memory);
        let newest = match memory.line(Place::Begun).read_begun() {
            // The cut of that number was not committed, and the one before is over. The line that
            // consumes the earlier cut is ignored: it may be only partly in memory.
            Some((next, CutReason::Ended)) if next == sequence => Newest {
                sequence: sequence.saturating_sub(1),
                is_consumed: true,
            },
            _ => Newest {
                sequence,
                is_consumed: memory.line(Place::Consumed).read_consumed() >= Some(sequence),
            },
        };
        (newest.sequence > 0).then_some(newest)
    }

    /// Reads the cut's record without a vault.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: the cut could not be resumed, even if it is not consumed.
    pub fn look(&self, memory: &impl CutMemory) -> Result<Look, CutReason> {
        let commit = self.commit(memory)?;
        let bytes = match commit.is_tagged {
            true => entered_bytes(memory, self.sequence).ok_or(CutReason::Damaged),
            false => check(memory, &Guard::none(), self.sequence, commit),
        };
        Ok(Look {
            report: self.told(commit, bytes?),
            is_tagged: commit.is_tagged,
        })
    }

    fn report(&self, memory: &impl CutMemory, guard: &Guard) -> Result<CutReport, CutReason> {
        let commit = self.commit(memory)?;
        let bytes = check(memory, guard, self.sequence, commit)?;
        Ok(self.told(commit, bytes))
    }

    fn commit(&self, memory: &impl CutMemory) -> Result<Commit, CutReason> {
        match memory.line(Place::Committed).read_committed() {
            Some((sequence, commit)) if sequence == self.sequence => Ok(commit),
            _ => {
                let begun = memory.line(Place::Begun).read_begun();
                Err(begun.map_or(CutReason::Damaged, |(_, reason)| reason))
            }
        }
    }

    const fn told(&self, commit: Commit, bytes: u64) -> CutReport {
        CutReport {
            sequence: self.sequence,
            bytes,
            ticks: commit.ticks,
            after: commit.after,
            cause: commit.cause,
            wear_words: commit.wear_words,
        }
    }
}

/// Bytes of all parts, if the cut is complete and the latest of this machine.
fn check(
    memory: &impl CutMemory,
    guard: &Guard,
    sequence: u64,
    commit: Commit,
) -> Result<u64, CutReason> {
    let proof = guard.proof_of(sequence, commit.is_tagged)?;
    let refused = match proof {
        Proof::Checksums => CutReason::Damaged,
        Proof::Tags { .. } => CutReason::Forged,
    };
    whole_bytes(memory, sequence, commit, proof).ok_or(refused)
}

/// Bytes of all parts, if the entries are those of the commit, and the parts match them.
fn whole_bytes(
    memory: &impl CutMemory,
    sequence: u64,
    commit: Commit,
    proof: &Proof,
) -> Option<u64> {
    if proof.of_entries(memory, sequence) != Some(commit.digest) {
        return None;
    }
    let parts = 0..memory.layout().parts();
    let bytes = parts.map(|part| {
        let (_, PartEntry { bytes, digest }) = memory.line(Place::Part(part)).read_part()?;
        (memory.digest(part, bytes, proof) == Some(digest)).then_some(bytes)
    });
    bytes.sum()
}

/// Bytes of all parts, if all entries are of that cut. The parts are not checked.
fn entered_bytes(memory: &impl CutMemory, sequence: u64) -> Option<u64> {
    let lines = (0..memory.layout().parts()).map(|part| memory.line(Place::Part(part)));
    let bytes = lines.map(|line| {
        let of_cut = line.read_part().filter(|(of, _)| *of == sequence);
        of_cut.map(|(_, entry)| entry.bytes)
    });
    // The sizes of the parts are not verified: their sum may overflow.
    bytes.reduce(|sum, bytes| sum?.checked_add(bytes?))?
}

/// The highest sequence number in the record.
pub(super) fn last_sequence(memory: &impl CutMemory) -> u64 {
    let begun = memory.line(Place::Begun).read_begun();
    let committed = memory.line(Place::Committed).read_committed();
    let consumed = memory.line(Place::Consumed).read_consumed();
    let all = [begun.map(|(sequence, _)| sequence), consumed];
    let all = all
        .into_iter()
        .chain([committed.map(|(sequence, _)| sequence)]);
    all.flatten().max().unwrap_or(0)
}
