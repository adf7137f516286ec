use core::fmt;

use poorwill_image::{ImageKind, Saved};
use poorwill_memory::PAGE_BYTES;
use poorwill_memory::linux::FreeListError;
use poorwill_store::{ConfigurationError, Failure, SleepMode, StoreError, UnguardedPartition};
use poorwill_vault::VaultError;

use crate::cut::NoCut;
use crate::error::{AreaError, NoSleep, NotArmed};
use crate::retain::{Cause, Source};
use crate::vault_state::VaultFault;

/// What happens in a sleep or a wake that people or scripts are told of, each with
/// its words for the console.
#[derive(Debug)]
pub enum Event<'e> {
    /// It rests with its RAM powered, as it has nowhere to sleep to.
    NotArmed(NotArmed),
    /// It rests on: it was to be saved by now.
    RestsOn(NoSleep),
    /// It is to be cut.
    Cut,
    /// It was to be cut, and is not.
    NotCut(NoCut),
    /// It wakes from a cut that it had asked for.
    WokenFromCut(CutWake),
    /// It rests with its RAM powered, for good or for so many ms.
    Rests(Option<u64>),
    /// It is to be saved.
    Staged {
        /// Why.
        cause: Cause,
        /// How long it has rested.
        slept_ms: u64,
    },
    /// It was being saved, and need not be any more: something wakes it.
    Abandoned(Source),
    /// It wakes from RAM.
    WokenFromRam {
        /// What wakes it.
        source: Source,
        /// How long it has rested.
        slept_ms: u64,
        /// How long the wake took.
        ms: u64,
    },
    /// It is saved and committed; the power goes next.
    Slept(SleepReport<'e>),
    /// Nobody can tell whether it is committed; the power goes next.
    InDoubt(StoreError),
    /// Free pages are not known.
    FreeInDoubt(FreeListError),
    /// The area's configuration cannot be read.
    Configuration(ConfigurationError),
    /// A device that may hold areas cannot be used.
    Device {
        /// Where it is.
        place: &'e dyn Place,
        /// Its number among the devices.
        number: usize,
        /// Why not.
        error: AreaError,
    },
    /// The vault cannot be used.
    Vault(VaultFault),
    /// The vault has its first key.
    NewKey,
    /// Images that cannot be reached may wake.
    StillArmed(VaultError),
    /// A cold boot leaves images behind that it should not.
    NotDiscarded(StoreError),
    /// The image that is being made will not know whether its partitions have changed.
    Unguarded(AreaError),
    /// Nor whether this one has.
    UnguardedPartition(UnguardedPartition),
    /// It wakes from an image.
    Woken {
        /// From which.
        wake: &'e WakeReport,
        /// How long all of it took, from power-on.
        ms: u64,
        /// It is sealed.
        sealed: bool,
    },
    /// Its memory is half written: the machine is reset.
    WakeFailed(Failure),
    /// OS memory held a part of a sealed image, whose load was cut short; it is cleared,
    /// and the machine reset.
    Cleared,
    /// A failure could not be noted.
    FailureNotKept(AreaError),
    /// Nor that a snapshot was reset.
    ResetNotKept(StoreError),
    /// A key within so many ms keeps the snapshot from waking.
    PressKey(u32),
}

/// Where a device is, for people.
pub trait Place: fmt::Display + fmt::Debug {}

impl<P: fmt::Display + fmt::Debug> Place for P {}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::NotArmed(lacks) => write!(f, "the machine cannot be saved: {lacks}"),
            Event::RestsOn(error) => write!(f, "the machine cannot be saved and rests on: {error}"),
            Event::Cut => write!(f, "sleep mode={}", SleepMode::Cut),
            Event::NotCut(error) => write!(f, "the machine cannot be cut: {error}"),
            Event::WokenFromCut(wake) => wake.fmt(f),
            Event::Rests(Some(ms)) => write!(f, "sleep mode=staged stage_after_ms={ms}"),
            Event::Rests(None) => f.write_str("sleep mode=retain"),
            Event::Staged { cause, slept_ms } => {
                write!(f, "staged cause={cause} slept_ms={slept_ms}")
            }
            Event::Abandoned(source) => write!(f, "sleep abandoned source={source}"),
            Event::WokenFromRam {
                source,
                slept_ms,
                ms,
            } => write!(
                f,
                "wake mode=retain source={source} slept_ms={slept_ms} ms={ms}"
            ),
            Event::Slept(sleep) => sleep.fmt(f),
            Event::InDoubt(error) => write!(
                f,
                "sleep in doubt: {error}; power off, the next power-on wakes or boots cold"
            ),
            Event::FreeInDoubt(error) => write!(f, "free pages are saved too: {error}"),
            Event::Configuration(error) => error.fmt(f),
            Event::Device {
                place,
                number,
                error,
            } => write!(f, "{place} {number}: {error}"),
            Event::Vault(error) => write!(f, "{error}; no image wakes, and none is made"),
            Event::NewKey => f.write_str("a new sealing key is in the vault"),
            Event::StillArmed(error) => write!(f, "an image elsewhere may still wake: {error}"),
            Event::NotDiscarded(error) => write!(
                f,
                "the images in the sleep area cannot be discarded: {error}"
            ),
            Event::UnguardedPartition(partition) => partition.fmt(f),
            Event::Unguarded(error) => {
                write!(
                    f,
                    "nobody will tell whether the disk has changed meanwhile: {error}"
                )
            }
            Event::Woken { wake, ms, sealed } => wake_line(f, wake, *ms, *sealed),
            Event::WakeFailed(failure) => write!(f, "wake failed: {failure}; reset"),
            Event::Cleared => f.write_str(
                "the load of a sealed image was cut short: its memory is cleared; reset",
            ),
            Event::FailureNotKept(error) => {
                write!(f, "why the wake failed cannot be kept: {error}")
            }
            Event::ResetNotKept(error) => {
                write!(f, "that the snapshot's wake failed cannot be kept: {error}")
            }
            Event::PressKey(ms) => write!(f, "snapshot: press a key within {ms} ms to boot cold"),
        }
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

fn wake_line(f: &mut fmt::Formatter<'_>, wake: &WakeReport, ms: u64, sealed: bool) -> fmt::Result {
    write!(
        f,
        "wake loaded_bytes={} ms={ms} load_ms={} sealed={} generation={}{}",
        wake.loaded_bytes,
        wake.load_ms,
        yes_or_no(sealed),
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
        /// Its OS has said, behind some wake, that it is well.
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
