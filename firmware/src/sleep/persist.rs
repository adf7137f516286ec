//! Sleep by saving the machine to its sleep area (the thesis's chapter 3.2).

use poorwill_image::{
    NoRoom, SaveError, SaveRequest, Saved, StateError, StateWriter, Workspace, save,
};
use poorwill_medium::nvme::Stop;
use poorwill_medium::{Medium, MediumError};
use poorwill_memory::{OsMemory, PAGE_BYTES, Page};
use poorwill_store::{Area, CommitError, Committed, OpenSlot, StoreError};
use thiserror::Error;

use super::disk::{self, DiskError};
use super::progress::Bar;
use super::{os_memory, state};
use crate::arch::Resume;
use crate::platform::console::say;
use crate::platform::{platform, power};

/// Why the machine does not sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum SleepError {
    /// The machine has nowhere to sleep to.
    #[error("{0}")]
    NotArmed(NotArmed),
    /// Saving failed; nothing is committed.
    #[error("{0}")]
    Failed(Failed),
}

/// What a machine lacks that cannot sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum NotArmed {
    /// No way to switch the power off.
    #[error("the machine cannot switch its power off")]
    NoPowerOff,
    /// No sleep area.
    #[error("{0}")]
    Disk(DiskError),
    /// More memory than the firmware can keep track of.
    #[error("{0}")]
    Workspace(NoRoom),
}

/// What failed on the way to the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Failed {
    /// The disk.
    #[error("{0}")]
    Disk(DiskError),
    /// The sleep area.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The slot could not be opened.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// The machine's state.
    #[error("{0}")]
    State(#[from] StateError),
    /// The image.
    #[error("{0}")]
    Save(#[from] SaveError),
    /// The commit.
    #[error("{0}")]
    Commit(#[from] CommitError),
}

/// The OS at rest: its other harts are stopped, and this one is in its call.
#[derive(Debug)]
pub(super) struct Quiesced {
    resume: Resume,
}

/// The state of harts and devices is written down.
#[derive(Debug)]
struct Captured {
    request: SaveRequest,
}

/// The image is on the medium, whole and durable, but not yet committed.
#[derive(Debug)]
struct Written {
    saved: Saved,
}

impl Quiesced {
    fn capture(self, workspace: &mut Workspace<'_>, generation: u64) -> Result<Captured, Failed> {
        let mut writer = StateWriter::new(workspace.state);
        state::capture(self.resume, &mut writer)?;
        Ok(Captured {
            request: SaveRequest {
                identity: platform().identity,
                generation,
                saved_at_ns: platform().time.now_ns().unwrap_or(0),
                state_bytes: writer.finish(),
            },
        })
    }
}

impl Captured {
    fn write(
        self,
        slot: &mut impl Medium,
        memory: &OsMemory,
        workspace: &mut Workspace<'_>,
    ) -> Result<Written, Failed> {
        let mut bar = Bar::new("sleeping");
        let saved = save(slot, memory, &self.request, workspace, &mut |progress| {
            bar.show(progress)
        });
        bar.end();
        Ok(Written { saved: saved? })
    }
}

impl Written {
    fn commit<M: Medium>(self, slot: OpenSlot<'_, '_, M>) -> Result<(Committed, Saved), Failed> {
        let committed = slot.commit(&self.saved)?;
        Ok((committed, self.saved))
    }
}

/// Saves the machine and switches the power off. Returns only when that failed,
/// with the disk as the OS left it.
pub(crate) fn persist(resume: Resume) -> SleepError {
    if !power::can_power_off() {
        return SleepError::NotArmed(NotArmed::NoPowerOff);
    }
    let time = &platform().time;
    let began = time.ticks();
    let outcome = disk::with_area(
        |area, pages| sleep(Quiesced { resume }, area, pages),
        |result| {
            if result.is_ok() {
                Stop::PowerOff
            } else {
                Stop::Handover
            }
        },
    );
    match outcome {
        Ok(Ok((committed, saved))) => {
            say!(
                "sleep mode=persist used_bytes={} saved_bytes={} ms={}",
                saved.saved_pages() * PAGE_BYTES,
                saved.image_bytes(),
                time.milliseconds_in(time.ticks().saturating_sub(began)),
            );
            power::power_off_asleep(committed)
        }
        Ok(Err(SleepError::Failed(Failed::Commit(CommitError::InDoubt(error))))) => {
            // Were the OS to go on, an image that did get committed would be
            // woken over what it has done since.
            say!("sleep in doubt: {error}; power off, the next power-on wakes or boots cold");
            power::power_off()
        }
        Ok(Err(error)) => error,
        Err(error) if error.is_absence() => SleepError::NotArmed(NotArmed::Disk(error)),
        Err(error) => SleepError::Failed(Failed::Disk(error)),
    }
}

fn sleep<M: Medium>(
    quiesced: Quiesced,
    area: &mut Area<'_, M>,
    pages: &mut [Page],
) -> Result<(Committed, Saved), SleepError> {
    let memory = os_memory();
    let mut workspace = Workspace::new(pages, memory.pages())
        .map_err(|error| SleepError::NotArmed(NotArmed::Workspace(error)))?;
    write_image(quiesced, area, &memory, &mut workspace).map_err(SleepError::Failed)
}

fn write_image<M: Medium>(
    quiesced: Quiesced,
    area: &mut Area<'_, M>,
    memory: &OsMemory,
    workspace: &mut Workspace<'_>,
) -> Result<(Committed, Saved), Failed> {
    let mut slot = area.begin()?;
    let captured = quiesced.capture(workspace, slot.generation())?;
    let written = captured.write(&mut slot.medium()?, memory, workspace)?;
    written.commit(slot)
}
