//! What a start finds.

use super::CutMemory;
use super::guard::Guard;
use super::layout::Place;
use super::line::{Commit, PartEntry};
use super::proof::Proof;
use super::reason::CutReason;

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
pub fn find(memory: &impl CutMemory, guard: &Guard) -> Found {
    let last = last_sequence(memory);
    let consumed = memory.line(Place::Consumed).read_consumed();
    if last == 0 || consumed >= Some(last) {
        return Found::Nothing;
    }
    let committed = memory.line(Place::Committed).read_committed();
    let Some((_, commit)) = committed.filter(|(sequence, _)| *sequence == last) else {
        let begun = memory.line(Place::Begun).read_begun();
        return Found::Refused(begun.map_or(CutReason::Damaged, |(_, reason)| reason));
    };
    match check(memory, guard, last, commit) {
        Ok(bytes) => Found::Cut(CutReport {
            sequence: last,
            bytes,
            ticks: commit.ticks,
        }),
        Err(reason) => Found::Refused(reason),
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
