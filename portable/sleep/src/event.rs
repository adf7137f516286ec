use core::fmt;

use poorwill_image::{ImageKind, Saved};
use poorwill_memory::PAGE_BYTES;
use poorwill_memory::linux::FreeListError;
use poorwill_store::{ConfigurationError, Failure, SleepMode, StoreError, UnguardedPartition};
use poorwill_vault::VaultError;
use thiserror::Error;

use crate::cut::NoCut;
use crate::error::{AreaError, NoSleep, NotArmed};
use crate::retain::{Cause, Source};
use crate::vault_state::VaultFault;

/// An event of a sleep or a wake, with its words for the console.
#[derive(Debug, Error)]
pub enum Event<'e> {
    /// The machine rests with its RAM powered, as it has no way to be saved.
    #[error("the machine cannot be saved: {0}")]
    NotArmed(NotArmed),
    /// It rests on: it was to be saved by now.
    #[error("the machine cannot be saved and rests on: {0}")]
    RestsOn(NoSleep),
    /// It is to be cut.
    #[error("sleep mode={}", SleepMode::Cut)]
    Cut,
    /// It was to be cut, and is not.
    #[error("the machine cannot be cut: {0}")]
    NotCut(NoCut),
    /// It wakes from a cut that it had asked for.
    #[error("{0}")]
    WokenFromCut(CutWake),
    /// It rests with its RAM powered, for good or for these ms.
    #[error(fmt = rest_line)]
    Rests(Option<u64>),
    /// It is to be saved.
    #[error("staged cause={cause} slept_ms={slept_ms}")]
    Staged {
        /// Why.
        cause: Cause,
        /// How long it has rested.
        slept_ms: u64,
    },
    /// Its save ends, as something wakes it.
    #[error("sleep abandoned source={0}")]
    Abandoned(Source),
    /// It wakes from RAM.
    #[error("wake mode=retain source={source} slept_ms={slept_ms} ms={ms}", source = .by)]
    WokenFromRam {
        /// What wakes it.
        by: Source,
        /// How long it has rested.
        slept_ms: u64,
        /// How long the wake took.
        ms: u64,
    },
    /// It is saved and committed; the power goes next.
    #[error("{0}")]
    Slept(SleepReport<'e>),
    /// It may be committed or not; the power goes next.
    #[error("sleep in doubt: {0}; power off, the next power-on wakes or boots cold")]
    InDoubt(StoreError),
    /// Free pages are not known.
    #[error("free pages are saved too: {0}")]
    FreeInDoubt(FreeListError),
    /// The area's configuration cannot be read.
    #[error("{0}")]
    Configuration(ConfigurationError),
    /// A device that may hold areas cannot be used.
    #[error("{place} {number}: {error}")]
    Device {
        /// Where it is.
        place: &'e dyn Place,
        /// Its number among the devices.
        number: usize,
        /// Why not.
        error: AreaError,
    },
    /// The vault cannot be used.
    #[error("{0}; no image wakes, and no image is made")]
    Vault(VaultFault),
    /// The vault has its first key.
    #[error("a new sealing key is in the vault")]
    NewKey,
    /// Images that cannot be reached may wake.
    #[error("an image elsewhere may still wake: {0}")]
    StillArmed(VaultError),
    /// A cold boot leaves images that it should not.
    #[error("the images in the sleep area cannot be discarded: {0}")]
    NotDiscarded(StoreError),
    /// The image that is being made will not know whether its partitions have changed.
    #[error("disk changes cannot be detected: {0}")]
    Unguarded(AreaError),
    /// Nor whether this one has.
    #[error("{0}")]
    UnguardedPartition(UnguardedPartition),
    /// It wakes from an image.
    #[error(fmt = wake_line)]
    Woken {
        /// From which.
        wake: &'e WakeReport,
        /// How long all of it took, from power-on.
        ms: u64,
        /// It is sealed.
        sealed: bool,
    },
    /// Its memory is half written: the machine is reset.
    #[error("wake failed: {0}; reset")]
    WakeFailed(Failure),
    /// OS memory held a part of a sealed image, whose load was cut short; it is cleared,
    /// and the machine reset.
    #[error("the load of a sealed image was cut short: its memory is cleared; reset")]
    Cleared,
    /// A failure could not be noted.
    #[error("why the wake failed cannot be kept: {0}")]
    FailureNotKept(AreaError),
    /// Nor that a snapshot was reset.
    #[error("that the snapshot's wake failed cannot be kept: {0}")]
    ResetNotKept(StoreError),
    /// A key within these ms keeps the snapshot from waking.
    #[error("snapshot: press a key within {0} ms to boot cold")]
    PressKey(u32),
}

/// Where a device is, for people.
pub trait Place: fmt::Display + fmt::Debug {}

impl<P: fmt::Display + fmt::Debug> Place for P {}

fn rest_line(stage_after_ms: &Option<u64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match stage_after_ms {
        Some(ms) => write!(f, "sleep mode=staged stage_after_ms={ms}"),
        None => f.write_str("sleep mode=retain"),
    }
}

/// A wake from a cut that the machine had asked for, with its words for the console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutWake {
    /// Bytes of the record.
    pub bytes: u64,
    /// How long it took from the OS's call to the commit, in microseconds.
    pub sleep_us: u64,
    /// How long the machine slept, in ms.
    pub slept_ms: u64,
    /// How long it took from the power-on until everything was put back, in microseconds.
    pub us: u64,
}

impl fmt::Display for CutWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CutWake {
            bytes,
            sleep_us,
            slept_ms,
            us,
        } = self;
        write!(
            f,
            "wake mode={} bytes={bytes} sleep_us={sleep_us} slept_ms={slept_ms} us={us}",
            SleepMode::Cut
        )
    }
}

fn wake_line(
    wake: &WakeReport,
    ms: &u64,
    sealed: &bool,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    write!(
        f,
        "wake loaded_bytes={} ms={ms} load_ms={} sealed={} generation={}{}",
        wake.loaded_bytes,
        wake.load_ms,
        yes_or_no(*sealed),
        wake.generation,
        match wake.image {
            ImageUse::Once => "",
            ImageUse::Snapshot { .. } => " mode=snapshot",
        },
    )
}

/// A sleep whose image is committed, with its line for the console.
#[derive(Debug)]
pub struct SleepReport<'e> {
    /// The image.
    pub saved: &'e Saved,
    /// How long all of it took.
    pub ms: u64,
    /// How long saving and committing took.
    pub save_ms: u64,
    /// Pages that the OS had free.
    pub free_pages: u64,
    /// It is sealed.
    pub sealed: bool,
}

impl fmt::Display for SleepReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let saved = self.saved;
        write!(
            f,
            "sleep mode={} used_bytes={} saved_bytes={} ms={} save_ms={} free_bytes={} sealed={} generation={}",
            match saved.kind() {
                ImageKind::Once => SleepMode::Persist.name(),
                ImageKind::Snapshot => "snapshot",
            },
            saved.saved_pages() * PAGE_BYTES,
            saved.image_bytes(),
            self.ms,
            self.save_ms,
            self.free_pages * PAGE_BYTES,
            yes_or_no(self.sealed),
            saved.generation(),
        )
    }
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// What kind of image wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageUse {
    /// The latest sleep's.
    Once,
    /// A snapshot.
    Snapshot {
        /// Its OS has said, after a wake, that it is well.
        is_proven: bool,
    },
}

/// A wake from an image, with its words for the OS (`/chosen/poorwill,boot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeReport {
    /// What kind of image.
    pub image: ImageUse,
    /// Number of the sleep that made it.
    pub generation: u64,
    /// Bytes of memory that were loaded.
    pub loaded_bytes: u64,
    /// How long loading took, in ms.
    pub load_ms: u64,
}

impl fmt::Display for WakeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WakeReport {
            image,
            generation,
            loaded_bytes,
            load_ms,
        } = self;
        let (snapshot, unproven) = match image {
            ImageUse::Once => ("", ""),
            ImageUse::Snapshot { is_proven: true } => ("snapshot ", ""),
            ImageUse::Snapshot { is_proven: false } => ("snapshot ", "unproven "),
        };
        write!(
            f,
            "woken: {snapshot}generation {generation} {unproven}loaded_bytes={loaded_bytes} load_ms={load_ms}"
        )
    }
}
