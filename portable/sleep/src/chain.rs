use poorwill_image::{
    Progress, SaveError, SaveRequest, Saved, StateWriter, Workers, Workspace, give_back, save,
};
use poorwill_medium::Medium;
use poorwill_memory::{EntryPoint, OsMemory};
use poorwill_store::{CommitError, Committed, OpenSlot, RecordFormat};

use crate::error::NotKept;
use crate::machine::{Domain, Machine};
use crate::plan::Plan;
use crate::state;

/// A domain that sleeps with the machine: one of its harts is in its OS's call, and its others are
/// stopped. The reference to OS memory is the proof, since the firmware lends it only then.
#[derive(Debug)]
pub struct Quiesced<'m, D> {
    domain: &'m D,
    memory: &'m mut OsMemory,
    vector: EntryPoint,
}

/// A domain whose OS does not run: the machine starts. The reference to OS memory is the proof.
#[derive(Debug)]
pub struct Stopped<'m, D> {
    pub(crate) domain: &'m D,
    pub(crate) memory: &'m mut OsMemory,
}

impl<'m, D> Stopped<'m, D> {
    /// A domain that has not started, with its memory.
    #[must_use]
    pub fn new(domain: &'m D, memory: &'m mut OsMemory) -> Self {
        Stopped { domain, memory }
    }
}

impl<'m, D: Domain> Quiesced<'m, D> {
    /// A domain with its memory, whose OS will continue at `vector`.
    #[must_use]
    pub fn new(domain: &'m D, memory: &'m mut OsMemory, vector: EntryPoint) -> Self {
        Quiesced {
            domain,
            memory,
            vector,
        }
    }

    /// The domain.
    pub(crate) fn domain(&self) -> &'m D {
        self.domain
    }

    /// The OS's memory.
    pub(crate) fn memory(&self) -> &OsMemory {
        self.memory
    }

    /// Captures the state of harts and devices.
    ///
    /// # Errors
    ///
    /// [`NotKept`].
    pub(crate) fn capture<'k, M: Machine<Domain = D>>(
        &mut self,
        machine: &M,
        workspace: &mut Workspace<'_>,
        plan: Plan<'_, 'k>,
    ) -> Result<Captured<'_, 'k>, NotKept> {
        let mut writer = StateWriter::new(workspace.state);
        state::capture(machine, self.domain, self.vector, &plan, &mut writer)?;
        let request = SaveRequest {
            identity: self.domain.identity(),
            generation: plan.generation,
            kind: plan.kind,
            saved_at_ns: plan.at.now_ns.unwrap_or(0),
            state_bytes: writer.finish(),
            seal: plan.seal,
        };
        Ok(Captured {
            memory: self.memory,
            request,
        })
    }
}

/// A machine whose state is captured.
#[derive(Debug)]
pub struct Captured<'q, 'k> {
    memory: &'q mut OsMemory,
    request: SaveRequest<'k>,
}

impl<'q, 'k> Captured<'q, 'k> {
    /// Saves the machine's memory after its state.
    ///
    /// # Errors
    ///
    /// [`SaveError`]: memory has its old contents.
    pub(crate) fn write<M: Medium>(
        self,
        slot: &mut M,
        workspace: &mut Workspace<'_>,
        workers: &dyn Workers,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Written<'q, 'k>, SaveError> {
        let saved = save(
            slot,
            self.memory,
            &self.request,
            workspace,
            workers,
            progress,
        )?;
        Ok(Written {
            memory: self.memory,
            request: self.request,
            saved,
        })
    }
}

/// A machine whose image is durable, but not committed yet.
#[derive(Debug)]
pub struct Written<'q, 'k> {
    memory: &'q mut OsMemory,
    request: SaveRequest<'k>,
    saved: Saved,
}

impl Written<'_, '_> {
    /// The facts of the image.
    pub(crate) fn saved(&self) -> &Saved {
        &self.saved
    }

    /// Commits the image, or the set whose last part it is. `sleep_ms`: duration of the sleep so
    /// far. A commit runs to its end even if the power fails, since that is shorter than the undo.
    ///
    /// # Errors
    ///
    /// [`CommitError`]: memory has its old contents. If the power fails, some of it may stay
    /// sealed.
    pub(crate) fn commit<M: Medium>(
        self,
        machine: &impl Machine,
        slot: OpenSlot<'_, '_, M>,
        workspace: &mut Workspace<'_>,
        sleep_ms: u32,
    ) -> Result<Committed, CommitError> {
        let committed = machine.to_the_end(|| match machine.format() {
            RecordFormat::Image => slot.commit(&self.saved, sleep_ms),
            RecordFormat::Set => slot.commit_set(sleep_ms),
        });
        if committed.is_err() {
            self.abandon(workspace, machine.workers());
        }
        committed
    }

    /// Discards the image, and restores memory to its old contents. If the power fails, some of it
    /// may stay sealed.
    pub(crate) fn abandon(self, workspace: &mut Workspace<'_>, workers: &dyn Workers) {
        give_back(&self.request, self.memory, workspace, workers);
    }
}
