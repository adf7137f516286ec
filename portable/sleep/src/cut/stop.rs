//! Stop: from the power-fail line to the commit.

use poorwill_image::Digest;

use super::find::last_sequence;
use super::layout::Place;
use super::line::{Commit, CutCause, Line};
use super::proof::Proof;
use super::reason::CutReason;
use super::wear::{self, WearWords};
use super::{CutMemory, put};

/// The machine that stops; the hart that runs the call coordinates.
pub trait StopMachine {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// Runs `job` with what proves this cut. Nothing that `job` leaves on its stack stays
    /// there.
    ///
    /// # Errors
    ///
    /// [`CutReason::Vault`]: nothing proves it any more.
    fn with_proof<R>(&self, job: impl FnOnce(&Proof) -> R) -> Result<R, CutReason>;

    /// Forgets what proves it: the key is in no hart's store any more, and in memory no
    /// longer than until the next [flush](Self::flush).
    fn forget(&self);

    /// Has every hart stopped: its last call is finished, and it runs no OS until the next
    /// power-on. None that ran it has written its part yet: harts that were still in a call, or in
    /// the OS, may have interrupted those that had stopped. A hart that nothing can interrupt, as
    /// its OS had stopped it, may write its part of the cut of that number now.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: one is not.
    fn halt(&self, sequence: u64) -> Result<(), CutReason>;

    /// Has the devices write no memory and send no message any more, and what disks have
    /// acknowledged be on them; writes down what puts them back, with its entry.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: one cannot be kept.
    fn quiet(&self, sequence: u64) -> Result<(), CutReason>;

    /// Has the interrupt controllers send harts no message any more: what they have sent is
    /// with the harts, and what comes to them now stays pending there.
    ///
    /// # Errors
    ///
    /// [`CutReason::MessageLeft`].
    fn shut(&self) -> Result<(), CutReason>;

    /// Has every hart that has not done so take the interrupts that others have asked of it, and
    /// write its part of the cut of that number, and its entry.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: one has not.
    fn gather(&self, sequence: u64) -> Result<(), CutReason>;

    /// Writes what all harts share, what is pending at the controllers among it, and the
    /// device tree, with their entries.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn capture(&self, sequence: u64) -> Result<(), CutReason>;

    /// Ticks of `time` since the line was raised, or the OS asked.
    fn ticks(&self) -> u64;

    /// Writes all caches back: all that any hart has stored is in memory when this returns.
    ///
    /// # Errors
    ///
    /// [`CutReason::CachesLeft`].
    fn flush(&self) -> Result<(), CutReason>;

    /// Whether the memory controller has told of an error that cannot be corrected.
    fn has_memory_error(&self) -> bool;

    /// What the wear registers hold. From here on nothing is written to memory that they map.
    fn wear(&self) -> WearWords;
}

/// That a cut is committed. Nothing else makes one.
#[derive(Debug)]
pub struct CutCommitted(());

/// Each step of Stop takes the one before.
pub(super) struct Signalled<'m, M> {
    machine: &'m M,
    sequence: u64,
    cause: CutCause,
}
struct Halted<'m, M>(Signalled<'m, M>);
struct Quiet<'m, M>(Signalled<'m, M>);
struct Shut<'m, M>(Signalled<'m, M>);
struct Gathered<'m, M>(Signalled<'m, M>);
struct Captured<'m, M>(Signalled<'m, M>);

/// The digest of all entries, and whether it is a tag. The key is forgotten.
struct Proven<'m, M>(Signalled<'m, M>, Digest, bool);
struct Flushed<'m, M>(Signalled<'m, M>, Digest, bool);

/// Stops the machine. Where it cannot, that is in the record: the next start will say so.
///
/// # Errors
///
/// [`CutReason`].
pub fn stop(machine: &impl StopMachine) -> Result<CutCommitted, CutReason> {
    let begun = Signalled::begin(machine, CutCause::PowerFailed);
    let sequence = match &begun {
        Ok(signalled) => signalled.sequence,
        Err(_) => last_sequence(machine.record()) + 1,
    };
    begun.and_then(Signalled::stop).inspect_err(|reason| {
        let begun = Line::begun(sequence, *reason);
        put(machine.record(), Place::Begun, &begun);
        machine.forget();
        // The record has another reason already.
        _ = machine.flush();
    })
}

impl<'m, M: StopMachine> Signalled<'m, M> {
    /// Says in the record that a cut has begun.
    pub(super) fn begin(machine: &'m M, cause: CutCause) -> Result<Self, CutReason> {
        let given = machine.with_proof(|proof| match proof {
            Proof::Checksums => None,
            Proof::Tags { number, .. } => Some(*number),
        })?;
        let sequence = given.unwrap_or_else(|| last_sequence(machine.record()) + 1);
        let begun = Line::begun(sequence, CutReason::PowerLost);
        put(machine.record(), Place::Begun, &begun);
        Ok(Signalled {
            machine,
            sequence,
            cause,
        })
    }

    /// All that follows. What a hart holds is written down once nothing can interrupt it any
    /// more: not a hart, not a device, not a controller.
    pub(super) fn stop(self) -> Result<CutCommitted, CutReason> {
        self.halt()
            .and_then(Halted::quiet)
            .and_then(Quiet::shut)
            .and_then(Shut::gather)
            .and_then(Gathered::capture)
            .and_then(Captured::prove)
            .and_then(Proven::flush)
            .and_then(Flushed::commit)
    }

    fn halt(self) -> Result<Halted<'m, M>, CutReason> {
        self.machine.halt(self.sequence)?;
        Ok(Halted(self))
    }
}

impl<'m, M: StopMachine> Halted<'m, M> {
    fn quiet(self) -> Result<Quiet<'m, M>, CutReason> {
        self.0.machine.quiet(self.0.sequence)?;
        Ok(Quiet(self.0))
    }
}

impl<'m, M: StopMachine> Quiet<'m, M> {
    fn shut(self) -> Result<Shut<'m, M>, CutReason> {
        self.0.machine.shut()?;
        Ok(Shut(self.0))
    }
}

impl<'m, M: StopMachine> Shut<'m, M> {
    fn gather(self) -> Result<Gathered<'m, M>, CutReason> {
        self.0.machine.gather(self.0.sequence)?;
        Ok(Gathered(self.0))
    }
}

impl<'m, M: StopMachine> Gathered<'m, M> {
    fn capture(self) -> Result<Captured<'m, M>, CutReason> {
        self.0.machine.capture(self.0.sequence)?;
        Ok(Captured(self.0))
    }
}

impl<'m, M: StopMachine> Captured<'m, M> {
    /// Nothing of the key is left where there is a commit: it is forgotten before the flush.
    fn prove(self) -> Result<Proven<'m, M>, CutReason> {
        let Signalled {
            machine, sequence, ..
        } = self.0;
        let (digest, is_tagged) = machine.with_proof(|proof| {
            let digest = proof.of_entries(machine.record(), sequence);
            (digest, proof.is_tags())
        })?;
        machine.forget();
        let digest = digest.ok_or(CutReason::Damaged)?;
        Ok(Proven(self.0, digest, is_tagged))
    }
}

impl<'m, M: StopMachine> Proven<'m, M> {
    fn flush(self) -> Result<Flushed<'m, M>, CutReason> {
        let Proven(signalled, digest, is_tagged) = self;
        signalled.machine.flush()?;
        Ok(Flushed(signalled, digest, is_tagged))
    }
}

impl<M: StopMachine> Flushed<'_, M> {
    /// Writes the line that makes it a cut, once all that it stands for is in memory; the
    /// wear registers last, as what is written before may change them.
    fn commit(self) -> Result<CutCommitted, CutReason> {
        let Flushed(signalled, digest, is_tagged) = self;
        let Signalled {
            machine,
            sequence,
            cause,
        } = signalled;
        let words = machine.wear();
        wear::save(machine.record(), sequence, &words);
        // Behind all that memory was asked for.
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
}
