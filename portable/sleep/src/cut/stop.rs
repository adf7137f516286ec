//! Stop: from the power-fail line to the commit.

use poorwill_image::Digest;

use super::find::last_sequence;
use super::layout::Place;
use super::line::{Commit, CutCause, Line};
use super::proof::Proof;
use super::reason::CutReason;
use super::wear::{self, WearWords};
use super::{CutMemory, put};

/// The machine that stops. The hart that runs [`stop()`] coordinates.
pub trait StopMachine {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// Runs `job` with the proof of this cut, and clears the stack that `job` used.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`]: there is no proof any more.
    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason>;

    /// Forgets the proof: after the next [flush](Self::flush) its key is not in memory.
    ///
    /// # Errors
    ///
    /// [`CutReason::KeyLeft`].
    fn forget(&self) -> Result<(), CutReason>;

    /// Waits until every hart has stopped: its last call is finished, and it runs no OS until the
    /// next power-on. No hart that ran the OS writes its part yet: a hart that has not stopped may
    /// interrupt it. A hart that the OS had stopped may write its part of the cut `sequence` now:
    /// nothing can interrupt it.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a hart has not stopped.
    fn halt(&self, sequence: u64) -> Result<(), CutReason>;

    /// Makes the devices quiet: they write no memory, send no message, and disks have stored all
    /// that they acknowledged. Writes the devices' state to its part, and enters the part.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a device cannot be kept.
    fn quiet(&self, sequence: u64) -> Result<(), CutReason>;

    /// Has the interrupt controllers send no message to harts any more. Earlier messages have
    /// reached the harts; later interrupts stay pending at the controllers.
    ///
    /// # Errors
    ///
    /// [`CutReason::MessageLeft`].
    fn shut(&self) -> Result<(), CutReason>;

    /// Has every hart take the interrupts that others have posted, write its part, and enter it,
    /// if the hart has not done so.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a hart has not.
    fn gather(&self, sequence: u64) -> Result<(), CutReason>;

    /// Writes the parts of the state that all harts share, with the interrupts that are pending
    /// at the controllers, and of the device tree. Enters both.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn capture(&self, sequence: u64) -> Result<(), CutReason>;

    /// Ticks of `time` since the line was raised, or the OS asked.
    fn ticks(&self) -> u64;

    /// Writes all caches back: everything that any hart has stored is in memory then.
    ///
    /// # Errors
    ///
    /// [`CutReason::CachesLeft`].
    fn flush(&self) -> Result<(), CutReason>;

    /// Whether the memory controller reports an error that cannot be corrected.
    fn has_memory_error(&self) -> bool;

    /// The words of the wear registers. From here on no hart writes to memory that they map.
    fn wear(&self) -> WearWords;
}

/// That a cut is committed. Only a commit makes one.
#[derive(Debug)]
pub struct CutCommitted(());

/// Stops the machine as its power fails. If it cannot be cut, the record has the reason, and the
/// next start says it.
///
/// # Errors
///
/// [`CutReason`].
pub fn stop(machine: &impl StopMachine) -> Result<CutCommitted, CutReason> {
    let begun = begin(machine);
    let sequence = begun.unwrap_or_else(|_| last_sequence(machine.record()) + 1);
    let cut = begun.and_then(|sequence| run(machine, sequence, CutCause::PowerFailed));
    cut.map_err(|reason| {
        let reason = machine.forget().err().unwrap_or(reason);
        put(
            machine.record(),
            Place::Begun,
            &Line::begun(sequence, reason),
        );
        // A failure to flush is no news: the record already has a reason.
        _ = machine.flush();
        reason
    })
}

/// Says in the record that a cut has begun. Returns the number of the cut.
pub(super) fn begin(machine: &impl StopMachine) -> Result<u64, CutReason> {
    let given = machine.with_proof(Proof::number)?;
    let sequence = given.unwrap_or_else(|| last_sequence(machine.record()) + 1);
    let begun = Line::begun(sequence, CutReason::PowerLost);
    put(machine.record(), Place::Begun, &begun);
    Ok(sequence)
}

/// Stops the machine and commits the cut. A hart writes its part once nothing can interrupt it
/// any more: no hart, no device, and no controller.
pub(super) fn run(
    machine: &impl StopMachine,
    sequence: u64,
    cause: CutCause,
) -> Result<CutCommitted, CutReason> {
    machine.halt(sequence)?;
    machine.quiet(sequence)?;
    machine.shut()?;
    machine.gather(sequence)?;
    machine.capture(sequence)?;
    let proof = prove(machine, sequence)?;
    machine.flush()?;
    commit(machine, sequence, cause, proof)
}

/// Returns the digest of all entries, and whether it is a tag. The key is forgotten before the
/// flush, so that memory holds no key once the cut is committed.
fn prove(machine: &impl StopMachine, sequence: u64) -> Result<(Digest, bool), CutReason> {
    let (digest, is_tagged) = machine.with_proof(|proof| {
        let digest = proof.of_entries(machine.record(), sequence);
        (digest, proof.is_tags())
    })?;
    machine.forget()?;
    Ok((digest.ok_or(CutReason::Damaged)?, is_tagged))
}

/// Writes the commit line, once everything that it stands for is in memory. The wear registers
/// come last: each earlier write may change them.
fn commit(
    machine: &impl StopMachine,
    sequence: u64,
    cause: CutCause,
    (digest, is_tagged): (Digest, bool),
) -> Result<CutCommitted, CutReason> {
    let words = machine.wear();
    wear::save(machine.record(), sequence, &words);
    // After the last access that could find an error.
    if machine.has_memory_error() {
        return Err(CutReason::MemoryError);
    }
    let commit = Commit {
        digest,
        is_tagged,
        cause,
        ticks: machine.ticks(),
        wear_words: words.len() as u64,
    };
    let line = Line::committed(sequence, commit);
    put(machine.record(), Place::Committed, &line);
    Ok(CutCommitted(()))
}
