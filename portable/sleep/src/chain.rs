use poorwill_image::{
    ImageKind, Progress, SaveError, SaveRequest, Saved, Seal, StateWriter, Workers, Workspace,
    give_back, save,
};
use poorwill_medium::Medium;
use poorwill_memory::{EntryPoint, OsMemory};
use poorwill_store::{CommitError, Committed, OpenSlot, PartitionFingerprint};

use crate::error::NotKept;
use crate::machine::{Domain, Machine};
use crate::state;

/// An OS that asks for a sleep: its other harts are stopped, and this hart is in the OS's call. The
/// reference to OS memory is the proof, since the firmware lends it only then.
#[derive(Debug)]
pub struct Quiesced<'m> {
    memory: &'m mut OsMemory,
    vector: EntryPoint,
}

impl<'m> Quiesced<'m> {
    /// An OS that will continue at `vector`.
    #[must_use]
    pub fn new(memory: &'m mut OsMemory, vector: EntryPoint) -> Self {
        Quiesced { memory, vector }
    }

    /// The address and argument at which the OS will continue.
    pub(crate) fn vector(&self) -> EntryPoint {
        self.vector
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
    pub(crate) fn capture<'k, M: Machine>(
        &mut self,
        machine: &M,
        workspace: &mut Workspace<'_>,
        plan: Plan<'_, 'k>,
    ) -> Result<Captured<'_, 'k>, NotKept> {
        let mut writer = StateWriter::new(workspace.state);
        state::capture(machine, self.vector, plan.fingerprints, &mut writer)?;
        let request = SaveRequest {
            identity: machine.domain().identity(),
            generation: plan.generation,
            kind: plan.kind,
            saved_at_ns: machine.now_ns().unwrap_or(0),
            state_bytes: writer.finish(),
            seal: plan.seal,
        };
        Ok(Captured {
            memory: self.memory,
            request,
        })
    }
}

/// The parameters of an image.
#[derive(Debug)]
pub(crate) struct Plan<'g, 'k> {
    pub(crate) generation: u64,
    pub(crate) kind: ImageKind,
    pub(crate) seal: Option<Seal<'k>>,
    /// The fingerprints of the partitions beside the image.
    pub(crate) fingerprints: &'g [PartitionFingerprint],
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
    /// [`SaveError`]: memory has its old contents.
    ///
    /// [`SaveError`]; memory is as it was then.
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
    /// Commits the image. `sleep_ms`: duration of the sleep so far. A commit runs to its end even
    /// if the power fails, since that is shorter than the undo.
    ///
    /// [`CommitError`]: memory has its old contents. If the power fails, some of it may stay
    /// sealed.
    ///
    /// [`CommitError`]; memory is as it was then. If the power fails, some may stay sealed.
    pub(crate) fn commit<M: Medium>(
        self,
        machine: &impl Machine,
        slot: OpenSlot<'_, '_, M>,
        workspace: &mut Workspace<'_>,
        sleep_ms: u32,
    ) -> Result<(Committed, Saved), CommitError> {
        match machine.to_the_end(|| slot.commit(&self.saved, sleep_ms)) {
            Ok(committed) => Ok((committed, self.saved)),
            Err(error) => {
                self.abandon(workspace, machine.domain().workers());
                Err(error)
            }
        }
    }

    /// Discards the image, and restores memory to its old contents. If the power fails, some of it
    /// may stay sealed.
    pub(crate) fn abandon(self, workspace: &mut Workspace<'_>, workers: &dyn Workers) {
        give_back(&self.request, self.memory, workspace, workers);
    }
}
