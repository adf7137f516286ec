use poorwill_image::{Crew, Progress, SaveError, SaveRequest, Saved, Workspace, give_back, save};
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::OsMemory;
use thiserror::Error;

use crate::commit::{Committed, OpenSlot};
use crate::error::{CommitError, StoreError};

/// Why a machine does not sleep. It goes on then, unless the error says
/// otherwise ([`CommitError::InDoubt`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoSleep<E> {
    /// The sleep area.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The slot could not be opened.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// The machine's state.
    #[error("{0}")]
    State(E),
    /// The image.
    #[error("{0}")]
    Save(#[from] SaveError),
    /// The commit.
    #[error("{0}")]
    Commit(#[from] CommitError),
}

/// Saves a machine whose OS is at rest into a slot ([`crate::Area::begin`]), and
/// commits the image. `capture` writes down the machine's state and says how the image is
/// to be made; it is told the generation that it must bear. `took_ms` tells how
/// long the sleep has taken, for its record.
///
/// # Errors
///
/// See [`NoSleep`]. Memory is as it was then.
pub fn sleep<'k, M: Medium, E>(
    mut slot: OpenSlot<'_, '_, M>,
    memory: &mut OsMemory,
    workspace: &mut Workspace<'_>,
    crew: &dyn Crew,
    capture: impl FnOnce(&mut Workspace<'_>, u64) -> Result<SaveRequest<'k>, E>,
    took_ms: impl FnOnce() -> u32,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Committed, Saved), NoSleep<E>> {
    let request = capture(workspace, slot.generation()).map_err(NoSleep::State)?;
    let saved = save(
        &mut slot.medium()?,
        memory,
        &request,
        workspace,
        crew,
        progress,
    )?;
    match slot.commit(&saved, took_ms()) {
        Ok(committed) => Ok((committed, saved)),
        Err(error) => {
            give_back(&request, memory, workspace, crew);
            Err(error.into())
        }
    }
}
