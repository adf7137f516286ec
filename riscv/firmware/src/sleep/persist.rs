//! Sleep by saving the machine to its sleep area (the thesis's chapter 3.2).

use poorwill_image::{
    ImageKind, NoRoom, Salt, SaveRequest, Saved, Seal, StateError, StateWriter, Workspace,
};
use poorwill_medium::Medium;
use poorwill_medium::nvme::Stop;
use poorwill_memory::linux::{Doubt, free_pages};
use poorwill_memory::{FreeContents, OsMemory, PAGE_BYTES, Page};
#[cfg(feature = "poison-free")]
use poorwill_memory::{PageMap, PageWalk, Progression, ROW_WORDS};
use poorwill_store::{
    Area, CommitError, Committed, Configuration, NoSleep, PartitionGuard, Purpose, SleepMode,
};
use thiserror::Error;

use super::disk::{self, DiskError};
use super::progress::Bar;
use super::vault::Sealing;
use super::{os_memory, state};
use crate::arch::{self, Resume};
use crate::crew::Crew;
use crate::platform::console::say;
use crate::platform::vault::VaultFault;
use crate::platform::{entropy, platform, power};

/// Which sleeps are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// One that the sleep area is configured to save at once.
    AsConfigured,
    /// This one.
    Now,
}

/// Why the machine is not saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotSaved {
    /// It is to rest with its RAM powered, for good or for so many milliseconds.
    Rests(Option<u64>),
    /// The machine has nowhere to sleep to.
    NotArmed(NotArmed),
    /// Saving failed; nothing is committed.
    Failed(Failed),
}

/// What a machine lacks that cannot be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum NotArmed {
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
    /// There is a vault, and it cannot be used: a plain image would tell what a
    /// sealed one was to hide.
    #[error("{0}")]
    Vault(#[from] VaultFault),
    /// Saving, or the commit.
    #[error("{0}")]
    Store(#[from] NoSleep<StateError>),
}

/// The OS at rest: its other harts are stopped, and this one is in its call.
#[derive(Debug)]
struct Quiesced<'g> {
    resume: Resume,
    /// For a snapshot: the guards of its partitions.
    guards: &'g [PartitionGuard],
}

impl Quiesced<'_> {
    /// Writes down the state of harts and devices.
    fn capture<'k>(
        self,
        workspace: &mut Workspace<'_>,
        generation: u64,
        kind: ImageKind,
        seal: Option<Seal<'k>>,
    ) -> Result<SaveRequest<'k>, StateError> {
        let mut writer = StateWriter::new(workspace.state);
        state::capture(self.resume, self.guards, &mut writer)?;
        Ok(SaveRequest {
            identity: platform().identity,
            generation,
            kind,
            saved_at_ns: platform().time.now_ns().unwrap_or(0),
            state_bytes: writer.finish(),
            seal,
        })
    }
}

/// Saves the machine and switches the power off. Returns only when it does not,
/// with the disk and memory as the OS left them.
pub(super) fn persist(resume: Resume, order: Order) -> NotSaved {
    if !power::can_power_off() {
        return NotSaved::NotArmed(NotArmed::NoPowerOff);
    }
    let time = &platform().time;
    let began = time.ticks();
    let sealing = match Sealing::at_sleep() {
        Ok(sealing) => sealing,
        Err(error) => return NotSaved::Failed(error.into()),
    };
    let outcome = disk::with_area(
        |work| {
            let purpose = purpose(work.area, order)?;
            let guards = match purpose {
                Purpose::Once => &[],
                Purpose::Snapshot(_) => &work.guards[..],
            };
            let quiesced = Quiesced { resume, guards };
            sleep(quiesced, purpose, work.area, work.pages, &sealing, began)
        },
        |result| {
            if result.is_ok() {
                Stop::PowerOff
            } else {
                Stop::Handover
            }
        },
    );
    match outcome {
        Ok(Ok(slept)) => {
            slept.tell(time.milliseconds_since(began), &sealing);
            #[cfg(feature = "stack-marks")]
            say_stacks();
            power::power_off_asleep(slept.committed)
        }
        Ok(Err(NotSaved::Failed(Failed::Store(NoSleep::Commit(CommitError::InDoubt(error)))))) => {
            // Were the OS to go on, an image that did get committed would be
            // woken over what it has done since.
            say!("sleep in doubt: {error}; power off, the next power-on wakes or boots cold");
            power::power_off()
        }
        Ok(Err(error)) => error,
        Err(error) if error.is_absence() => NotSaved::NotArmed(NotArmed::Disk(error)),
        Err(error) => NotSaved::Failed(Failed::Disk(error)),
    }
}

/// What the area wants the machine to be saved for, unless it is to rest first. A
/// configuration that cannot be read is as none: the machine is saved, which loses
/// nothing.
fn purpose<M: Medium>(area: &mut Area<'_, M>, order: Order) -> Result<Purpose, NotSaved> {
    if order == Order::Now {
        return Ok(Purpose::Once);
    }
    let configuration = area.configuration().unwrap_or_else(|error| {
        say!("{error}");
        Configuration::default()
    });
    match (configuration.next_snapshot, configuration.stage_after_ms()) {
        (Some(name), _) => {
            // The sleeps behind its wakes are not to be snapshots too.
            let rest = Configuration {
                next_snapshot: None,
                ..configuration
            };
            area.configure(&rest)
                .map_err(|error| NotSaved::Failed(NoSleep::from(error).into()))?;
            Ok(Purpose::Snapshot(name))
        }
        (None, Some(0)) => Ok(Purpose::Once),
        (None, rest) => Err(NotSaved::Rests(rest)),
    }
}

/// Saves and commits; the sleep `began` at that time.
fn sleep<M: Medium>(
    quiesced: Quiesced<'_>,
    purpose: Purpose,
    area: &mut Area<'_, M>,
    pages: &mut [Page],
    sealing: &Sealing,
    began: u64,
) -> Result<Slept, NotSaved> {
    let no_room = |error| NotSaved::NotArmed(NotArmed::Workspace(error));
    let mut memory = os_memory();
    let mut workspace = Workspace::new(pages, memory.pages()).map_err(no_room)?;
    let free_pages = leave_out_free(&memory, &mut workspace).map_err(no_room)?;
    let seal = sealing.key().map(|key| Seal {
        key,
        salt: Salt(entropy::salt()),
    });
    let time = &platform().time;
    let saving_began = time.ticks();
    let mut bar = Bar::new("sleeping");
    let slot = area
        .begin(purpose)
        .map_err(|error| NotSaved::Failed(NoSleep::from(error).into()))?;
    let slept = poorwill_store::sleep(
        slot,
        &mut memory,
        &mut workspace,
        &Crew,
        |workspace, generation| quiesced.capture(workspace, generation, purpose.kind(), seal),
        || u32::try_from(time.milliseconds_since(began)).unwrap_or(u32::MAX),
        &mut |progress| bar.show(progress),
    );
    bar.end();
    let (committed, saved) = slept.map_err(|error| NotSaved::Failed(error.into()))?;
    Ok(Slept {
        committed,
        saved,
        free_pages,
        save_ms: time.milliseconds_since(saving_began),
    })
}

/// A machine whose image is committed.
#[derive(Debug)]
struct Slept {
    committed: Committed,
    saved: Saved,
    free_pages: u64,
    /// Saving and committing.
    save_ms: u64,
}

impl Slept {
    /// Says so, all of it having taken `ms`.
    fn tell(&self, ms: u64, sealing: &Sealing) {
        say!(
            "sleep mode={} used_bytes={} saved_bytes={} ms={ms} save_ms={} free_bytes={} sealed={} generation={}",
            match self.saved.kind() {
                ImageKind::Once => SleepMode::Persist.name(),
                ImageKind::Snapshot => "snapshot",
            },
            self.saved.saved_pages() * PAGE_BYTES,
            self.saved.image_bytes(),
            self.save_ms,
            self.free_pages * PAGE_BYTES,
            sealing.word(),
            self.saved.generation(),
        );
    }
}

/// Has the save leave out the pages that the OS has free; tells how many. Where
/// they are in doubt, all that is not zero is saved, and the console says why.
// Its frame is gone before the save needs the stack.
#[inline(never)]
fn leave_out_free(memory: &OsMemory, workspace: &mut Workspace<'_>) -> Result<u64, NoRoom> {
    workspace.leave_out(memory, |map| {
        let found = arch::page_tables()
            .ok_or(Doubt::NoPageTables)
            .and_then(|tables| free_pages(memory, &tables, map));
        match found {
            Ok(free) => {
                #[cfg(feature = "poison-free")]
                poison(memory, map, free.contents);
                (free.contents, free.pages)
            }
            Err(doubt) => {
                say!("free pages are saved too: {doubt}");
                (FreeContents::Zeros, 0)
            }
        }
    })
}

/// Overwrites what was found free, and has it saved like that: a page that is in
/// use after all shows in an OS that goes on with it.
#[cfg(feature = "poison-free")]
fn poison(memory: &OsMemory, free: &mut PageMap<'_>, contents: FreeContents) {
    const POISON: Progression = Progression {
        row: [0xf4ee_dead_f4ee_dead; ROW_WORDS],
        step: [0; ROW_WORDS],
    };
    say!("a build for tests: free pages are overwritten");
    let mut pages = PageWalk::new(free.members());
    while let Some(page) = pages.next(memory) {
        match contents {
            FreeContents::Anything => POISON.fill(memory.words(page)),
            FreeContents::Zeros => memory.zero(page),
        }
    }
    free.clear();
}

#[cfg(feature = "stack-marks")]
fn say_stacks() {
    let tops = platform().harts.iter().map(crate::hart::Hart::stack_top);
    let (deep, small) = crate::arch::stack::most_used(tops);
    say!("stacks deep_bytes={deep} hart_bytes={small}");
}
