//! Stop: from the power-fail line to the commit.

use poorwill_memory::checksum;

use super::layout::{Layout, Place};
use super::line::Line;
use super::reason::CutReason;
use super::{CutMemory, put};

/// The machine that stops; the hart that runs the call coordinates.
pub trait StopMachine {
    /// The record.
    fn record(&self) -> &impl CutMemory;

    /// Has every hart stopped: each has written its part of the cut of that number, and
    /// its entry, and no OS runs until the next power-on.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: one is not.
    fn gather(&self, sequence: u64) -> Result<(), CutReason>;

    /// Writes what all harts share, and the device tree, with their entries.
    ///
    /// # Errors
    ///
    /// [`CutReason`].
    fn capture(&self, sequence: u64) -> Result<(), CutReason>;

    /// Has the devices write no memory any more, and what disks have acknowledged be on
    /// them; writes down what puts them back, with its entry.
    ///
    /// # Errors
    ///
    /// [`CutReason`]: one cannot be kept.
    fn quiet(&self, sequence: u64) -> Result<(), CutReason>;

    /// Ticks of `time` since the line was raised.
    fn ticks(&self) -> u64;

    /// Writes all caches back: all that any hart has stored is in memory when this returns.
    fn flush(&self);
}

/// That a cut is committed. Nothing else makes one.
#[derive(Debug)]
pub struct CutCommitted(());

/// Each step of Stop takes the one before.
struct Signalled<'m, M> {
    machine: &'m M,
    sequence: u64,
}
struct Gathered<'m, M>(Signalled<'m, M>);
struct Captured<'m, M>(Signalled<'m, M>);
struct Quiet<'m, M>(Signalled<'m, M>);
struct Flushed<'m, M>(Signalled<'m, M>);

/// Stops the machine. Where it cannot, that is in the record: the next start will say so.
///
/// # Errors
///
/// [`CutReason`].
pub fn stop(machine: &impl StopMachine) -> Result<CutCommitted, CutReason> {
    let signalled = Signalled::begin(machine);
    let sequence = signalled.sequence;
    let flushed = signalled
        .gather()
        .and_then(Gathered::capture)
        .and_then(Captured::quiet)
        .map(Quiet::flush);
    match flushed.and_then(Flushed::commit) {
        Ok(committed) => Ok(committed),
        Err(reason) => {
            put(
                machine.record(),
                Place::Begun,
                &Line::begun(sequence, reason),
            );
            Err(reason)
        }
    }
}

impl<'m, M: StopMachine> Signalled<'m, M> {
    /// Says in the record that a cut has begun.
    fn begin(machine: &'m M) -> Self {
        let sequence = last_sequence(machine.record()) + 1;
        let begun = Line::begun(sequence, CutReason::PowerLost);
        put(machine.record(), Place::Begun, &begun);
        Signalled { machine, sequence }
    }

    fn gather(self) -> Result<Gathered<'m, M>, CutReason> {
        self.machine.gather(self.sequence)?;
        Ok(Gathered(self))
    }
}

impl<'m, M: StopMachine> Gathered<'m, M> {
    fn capture(self) -> Result<Captured<'m, M>, CutReason> {
        self.0.machine.capture(self.0.sequence)?;
        Ok(Captured(self.0))
    }
}

impl<'m, M: StopMachine> Captured<'m, M> {
    fn quiet(self) -> Result<Quiet<'m, M>, CutReason> {
        self.0.machine.quiet(self.0.sequence)?;
        Ok(Quiet(self.0))
    }
}

impl<'m, M: StopMachine> Quiet<'m, M> {
    fn flush(self) -> Flushed<'m, M> {
        self.0.machine.flush();
        Flushed(self.0)
    }
}

impl<M: StopMachine> Flushed<'_, M> {
    /// Writes the line that makes it a cut, once all that it stands for is in memory.
    fn commit(self) -> Result<CutCommitted, CutReason> {
        let Signalled { machine, sequence } = self.0;
        let record = machine.record();
        let digest = entries_digest(record, sequence).ok_or(CutReason::Damaged)?;
        let line = Line::committed(sequence, digest, machine.ticks());
        put(record, Place::Committed, &line);
        Ok(CutCommitted(()))
    }
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

/// What stands for all entries; `None` where one is not that cut's.
pub(super) fn entries_digest(memory: &impl CutMemory, sequence: u64) -> Option<u64> {
    let layout: Layout = memory.layout();
    let mut digest = checksum::of_words(&[layout.parts() as u64, layout.pages() as u64]);
    for part in 0..layout.parts() {
        let line = memory.line(Place::Part(part));
        let (of, _) = line.read_part()?;
        if of != sequence {
            return None;
        }
        digest = checksum::of_words(&[digest, line.checksum()]);
    }
    Some(digest)
}
