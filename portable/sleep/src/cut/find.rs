//! What a start finds.

use super::CutMemory;
use super::guard::Guard;
use super::layout::Place;
use super::line::{Commit, CutCause, PartEntry};
use super::proof::Proof;
use super::reason::CutReason;

/// What is told of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutReport {
    /// Its number.
    pub sequence: u64,
    /// Bytes of the record's parts.
    pub bytes: u64,
    /// Ticks of `time` from the line, or the OS's call, to the commit.
    pub ticks: u64,
    /// Why it is one.
    pub cause: CutCause,
    /// How many words of wear registers it has.
    pub wear_words: u64,
}

/// What a start finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No cut that the last start has not known of.
    Nothing,
    /// One that is to be gone on with.
    Cut(CutReport),
    /// One that is of no use, or that has come to nothing.
    Refused(CutReason),
}

/// What the record says, and whether memory holds what it says.
#[must_use]
pub fn find(memory: &impl CutMemory, guard: &Guard) -> Found {
    match Newest::in_record(memory) {
        Some(cut) if !cut.is_consumed => match cut.report(memory, guard) {
            Ok(report) => Found::Cut(report),
            Err(reason) => Found::Refused(reason),
        },
        // Of one that was gone on with the harts ran, or were just to be released.
        _ => running(memory).map_or(Found::Nothing, |sequence| {
            Found::Refused(CutReason::NoOther(sequence))
        }),
    }
}

/// The cut that the machine went on with, and has not ended in order behind since: the newest
/// that the record knows of.
pub(super) fn running(memory: &impl CutMemory) -> Option<u64> {
    let running = memory.line(Place::Consumed).read_running();
    running.filter(|sequence| *sequence == last_sequence(memory))
}

/// The newest cut that a record knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Newest {
    /// Its number.
    pub sequence: u64,
    /// It was gone on with, or given up.
    pub is_consumed: bool,
}

/// What a record tells of a cut to somebody who has not the machine's vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What is told.
    pub report: CutReport,
    /// Its digests are tags: only the vault tells whether the record is whole, authentic and
    /// the latest. Nobody goes on by this.
    pub is_tagged: bool,
}

impl Newest {
    /// The newest cut of a record, if there has been one.
    #[must_use]
    pub fn in_record(memory: &impl CutMemory) -> Option<Self> {
        let sequence = last_sequence(memory);
        let newest = match memory.line(Place::Begun).read_begun() {
            // There is none of that number yet, and the one before is over, whatever the line
            // says that consumes it: that may be in memory in part.
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

    /// What is told of it where the machine has no vault, or none at hand.
    ///
    /// # Errors
    ///
    /// Why it cannot be gone on with, whether it is consumed or not.
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
            cause: commit.cause,
            wear_words: commit.wear_words,
        }
    }
}

/// Bytes of all parts, if the cut is the latest of this machine, and whole.
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

/// Bytes of all parts, if the entries are those that were committed, and the parts are what
/// these say.
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

/// Bytes of all parts, if all entries are that cut's; what they say of parts is not looked at.
fn entered_bytes(memory: &impl CutMemory, sequence: u64) -> Option<u64> {
    let lines = (0..memory.layout().parts()).map(|part| memory.line(Place::Part(part)));
    let bytes = lines.map(|line| {
        let of_cut = line.read_part().filter(|(of, _)| *of == sequence);
        of_cut.map(|(_, entry)| entry.bytes)
    });
    // Anybody can write them.
    bytes.reduce(|sum, bytes| sum?.checked_add(bytes?))?
}

/// The highest sequence number that the record knows of.
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
