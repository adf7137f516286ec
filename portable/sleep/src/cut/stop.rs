//! Stop: the steps from the power-fail line to the commit.

use poorwill_image::Digest;

use super::find::last_sequence;
use super::layout::Place;
use super::line::{Commit, CutCause, Line};
use super::memory::{CutMemory, put};
use super::proof::Proof;
use super::reason::CutReason;
use super::wear::{self, WearWords};

/// The machine that stops. The hart that runs [`stop()`] is the coordinator.
pub trait StopMachine {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// Runs `job` with the proof of this cut, and clears the stack that `job` used.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`]: the vault gives no proof any more.
    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason>;

    /// Clears the proof: after the next [flush](Self::flush) its key is not in memory.
    ///
    /// # Errors
    ///
    /// [`CutReason::KeyLeft`].
    fn forget(&self) -> Result<(), CutReason>;

    /// Waits until every hart has stopped: its last call is finished, and it runs no OS until the
    /// next power-on. A hart that ran the OS must not write its part yet, because a running hart
    /// may still interrupt it. A hart that the OS had stopped may write its part of the cut
    /// `sequence` now: nothing can interrupt it.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a hart has not stopped.
    fn halt(&self, sequence: u64) -> Result<(), CutReason>;

    /// Makes the devices quiet: they write no memory and send no message, and disks have stored all
    /// acknowledged data. Writes the devices' state to its part, and enters the part.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: the state of a device cannot be saved.
    fn quiet(&self, sequence: u64) -> Result<(), CutReason>;

    /// Stops the messages of interrupt controllers to harts. Earlier messages have reached the
    /// harts; later interrupts stay pending at the controllers.
    ///
    /// # Errors
    ///
    /// [`CutReason::MessageLeft`].
    fn shut(&self) -> Result<(), CutReason>;

    /// Lets every hart take the interrupts that others have posted, write its part, and enter it,
    /// unless it has done so.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: a hart has not done so.
    fn gather(&self, sequence: u64) -> Result<(), CutReason>;

    /// Writes two parts, and enters them: the state that all harts share, with the interrupts that
    /// are pending at the controllers, and the device tree.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn capture(&self, sequence: u64) -> Result<(), CutReason>;

    /// Ticks of `time` since the line was raised, or since the OS's request.
    fn ticks(&self) -> u64;

    /// Writes all caches back: after this, memory holds each earlier store of any hart.
    ///
    /// # Errors
    ///
    /// [`CutReason::CachesLeft`].
    fn flush(&self) -> Result<(), CutReason>;

    /// Returns whether the memory controller reports an uncorrectable error.
    fn has_memory_error(&self) -> bool;

    /// Reads the wear registers. After this no hart writes to memory that they map.
    fn wear(&self) -> WearWords;
}

/// Number of lines of the record that a Stop with that many words of wear registers writes back one by
/// one. The first comes before the devices are quiet.
#[must_use]
pub const fn single_lines(wear_words: usize) -> u64 {
    // `begun`, the words, and `committed`.
    2 + wear::lines(wear_words) as u64
}

/// Proof that a cut is committed. Only a commit makes one.
#[derive(Debug)]
pub struct CutCommitted(());

/// Stops the machine because its power fails. If it cannot be cut, the record has the reason, and
/// the next start reports it.
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
        // An error of the flush is ignored, because the record already has a reason.
        _ = machine.flush();
        reason
    })
}

/// Notes in the record that a cut has begun. Returns the number of the cut.
pub(super) fn begin(machine: &impl StopMachine) -> Result<u64, CutReason> {
    let given = machine.with_proof(Proof::number)?;
    let sequence = given.unwrap_or_else(|| last_sequence(machine.record()) + 1);
    let begun = Line::begun(sequence, CutReason::PowerLost);
    put(machine.record(), Place::Begun, &begun);
    Ok(sequence)
}

/// Stops the machine and commits the cut. The harts write their parts only after all other harts,
/// devices and controllers have stopped interrupting them.
pub(super) fn run(
    machine: &impl StopMachine,
    sequence: u64,
    cause: CutCause,
) -> Result<CutCommitted, CutReason> {
    machine.halt(sequence)?;
    machine.quiet(sequence)?;
    let quieted = machine.ticks();
    machine.shut()?;
    machine.gather(sequence)?;
    machine.capture(sequence)?;
    let proof = prove(machine, sequence)?;
    machine.flush()?;
    commit(machine, sequence, cause, proof, quieted)
}

/// Returns the digest of all entries, and whether it is a tag. Clears the key before the flush, so
/// that memory holds no key after the commit.
fn prove(machine: &impl StopMachine, sequence: u64) -> Result<(Digest, bool), CutReason> {
    let (digest, is_tagged) = machine.with_proof(|proof| {
        let digest = proof.of_entries(machine.record(), sequence);
        (digest, proof.is_tags())
    })?;
    machine.forget()?;
    Ok((digest.ok_or(CutReason::Damaged)?, is_tagged))
}

/// Writes the commit line, after everything that the line confirms is in memory. The wear registers
/// come last, since each earlier write may change them. `quieted` is the time of the last quiet device.
fn commit(
    machine: &impl StopMachine,
    sequence: u64,
    cause: CutCause,
    (digest, is_tagged): (Digest, bool),
    quieted: u64,
) -> Result<CutCommitted, CutReason> {
    let words = machine.wear();
    wear::save(machine.record(), sequence, &words);
    // This check comes after the last access that could find an error.
    if machine.has_memory_error() {
        return Err(CutReason::MemoryError);
    }
    let ticks = machine.ticks();
    let commit = Commit {
        digest,
        is_tagged,
        cause,
        ticks,
        after: ticks.saturating_sub(quieted),
        wear_words: words.len() as u64,
    };
    let line = Line::committed(sequence, commit);
    put(machine.record(), Place::Committed, &line);
    Ok(CutCommitted(()))
}
