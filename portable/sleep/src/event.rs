use core::fmt;

use poorwill_image::{ImageKind, Saved};
use poorwill_memory::PAGE_BYTES;
use poorwill_memory::linux::FreeListError;
use poorwill_store::{ConfigurationError, Failure, SleepMode, StoreError, UnguardedPartition};
use poorwill_vault::VaultError;
use thiserror::Error;

use crate::cut::NoCut;
use crate::error::{AreaError, ColdBoot, NoSleep, NotArmed};
use crate::in_use::FunctionInUse;
use crate::retain::{Cause, Source};
use crate::vault_state::VaultFault;

/// An event of a sleep or a wake, with its console line.
#[derive(Debug, Error)]
pub enum Event<'e> {
    /// The machine retains, because it cannot be saved.
    #[error("the machine cannot be saved: {0}")]
    NotArmed(NotArmed),
    /// The machine keeps retaining, although its save is due.
    #[error("the machine cannot be saved and keeps retaining: {0}")]
    RestsOn(NoSleep),
    /// The machine will be cut.
    #[error("sleep mode={}", SleepMode::Cut)]
    Cut,
    /// A cut was refused.
    #[error("the machine cannot be cut: {0}")]
    NotCut(NoCut),
    /// The machine wakes from a cut that its OS had asked for.
    #[error("{0}")]
    WokenFromCut(CutWake),
    /// The machine retains, without an end or for this number of ms.
    #[error(fmt = rest_line)]
    Rests(Option<u64>),
    /// The machine will be saved.
    #[error("staged cause={cause} slept_ms={slept_ms}")]
    Staged {
        /// The cause of the save.
        cause: Cause,
        /// Time for which it has retained, in ms.
        slept_ms: u64,
    },
    /// The save is abandoned because of this wake event.
    #[error("sleep abandoned source={0}")]
    Abandoned(Source),
    /// The machine wakes from powered RAM.
    #[error("wake mode=retain source={source} slept_ms={slept_ms} ms={ms}", source = .by)]
    WokenFromRam {
        /// The wake event.
        by: Source,
        /// Time for which it has retained, in ms.
        slept_ms: u64,
        /// Duration of the wake, in ms.
        ms: u64,
    },
    /// The domain with this name sleeps alone.
    #[error("park domain={0}")]
    Parks(&'e str),
    /// A domain wakes that has slept alone.
    #[error("wake domain={domain} mode=park source={source} slept_ms={slept_ms} us={us}", source = .by)]
    Unparked {
        /// Its name.
        domain: &'e str,
        /// Its wake event.
        by: Source,
        /// Time for which it was parked, in ms.
        slept_ms: u64,
        /// Time from the wake event to its OS, in microseconds.
        us: u64,
    },
    /// A domain wakes that has slept with the machine.
    #[error("wake domain={domain} mode=retain source={source} slept_ms={slept_ms} us={us}", source = .by)]
    WokenWithMachine {
        /// Its name.
        domain: &'e str,
        /// The machine's wake event.
        by: Source,
        /// Time for which the machine has retained, in ms.
        slept_ms: u64,
        /// Time from the wake event to the domain's turn, in microseconds.
        us: u64,
    },
    /// The power will go off although the OS has left this function in use.
    #[error(
        "warning: PCI {0} is still in use and will lose its state: unload its driver before a sleep"
    )]
    LeftInUse(FunctionInUse),
    /// Further such functions.
    #[error("warning: {0} more PCI functions are still in use and will lose their state")]
    MoreLeftInUse(usize),
    /// The image is committed, and the power goes off next.
    #[error("{0}")]
    Slept(SleepReport<'e>),
    /// It is unknown whether the image is committed. The power goes off next.
    #[error("sleep in doubt: {0}; power off, the next power-on wakes or boots cold")]
    InDoubt(StoreError),
    /// The free pages are unknown.
    #[error("free pages are saved too: {0}")]
    FreeInDoubt(FreeListError),
    /// The area's configuration is unreadable.
    #[error("{0}")]
    Configuration(ConfigurationError),
    /// A device that may hold areas cannot be used.
    #[error("{place} {number}: {error}")]
    Device {
        /// The device's location.
        place: &'e dyn Place,
        /// The device's index.
        number: usize,
        /// The reason.
        error: AreaError,
    },
    /// The vault cannot be used.
    #[error("{0}; no image wakes, and no image is made")]
    Vault(VaultFault),
    /// The vault has got its first key.
    #[error("a new sealing key is in the vault")]
    NewKey,
    /// Images on disks that are not connected may still wake.
    #[error("an image elsewhere may still wake: {0}")]
    StillArmed(VaultError),
    /// A start that wakes no image has discarded one.
    #[error("warning: the image of the last sleep is discarded")]
    ImageDiscarded,
    /// A cold boot could not discard all images.
    #[error("the images in the sleep area cannot be discarded: {0}")]
    NotDiscarded(StoreError),
    /// The new image cannot detect changes of its partitions.
    #[error("disk changes cannot be detected: {0}")]
    Unguarded(AreaError),
    /// The new image cannot detect changes of this partition.
    #[error("{0}")]
    UnguardedPartition(UnguardedPartition),
    /// The machine wakes from an image.
    #[error(fmt = wake_line)]
    Woken {
        /// The facts of the wake.
        wake: &'e WakeReport,
        /// Time from power-on to the end of the wake, in ms.
        ms: u64,
        /// The image is sealed.
        sealed: bool,
    },
    /// A domain wakes from its image.
    #[error(
        "wake domain={domain} mode={} loaded_bytes={} load_ms={} us={us}",
        SleepMode::Persist.name(), .wake.loaded_bytes, .wake.load_ms
    )]
    DomainWoken {
        /// Its name.
        domain: &'e str,
        /// The facts of the wake.
        wake: &'e WakeReport,
        /// Time from the power-on until its OS continues, in microseconds.
        us: u64,
    },
    /// A domain starts cold while the others wake.
    #[error("cold boot: domain {domain}: {reason}")]
    DomainCold {
        /// Its name.
        domain: &'e str,
        /// The reason.
        reason: ColdBoot,
    },
    /// A domain does not run until the next power-on, since its image could not be loaded.
    #[error("domain {domain} ends: the image could not be loaded: {failure}")]
    DomainNotLoaded {
        /// Its name.
        domain: &'e str,
        /// The reason.
        failure: Failure,
    },
    /// The wake failed with OS memory partially restored: the machine is reset.
    #[error("wake failed: {0}; reset")]
    WakeFailed(Failure),
    /// OS memory held a part of a sealed image, because its load was interrupted. The memory is
    /// cleared, and the machine is reset.
    #[error("the load of a sealed image was interrupted: its memory is cleared; reset")]
    Cleared,
    /// A failed wake could not be recorded.
    #[error("the failure of the wake cannot be recorded: {0}")]
    FailureNotKept(AreaError),
    /// A reset during a snapshot's trial could not be recorded.
    #[error("the failure of the snapshot's wake cannot be recorded: {0}")]
    ResetNotKept(StoreError),
    /// A key within this number of ms cancels the snapshot's wake.
    #[error("snapshot: press a key within {0} ms to boot cold")]
    PressKey(u32),
}

/// The location of a device, as shown to users.
pub trait Place: fmt::Display + fmt::Debug {}

impl<P: fmt::Display + fmt::Debug> Place for P {}

fn rest_line(stage_after_ms: &Option<u64>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match stage_after_ms {
        Some(ms) => write!(f, "sleep mode=staged stage_after_ms={ms}"),
        None => f.write_str("sleep mode=retain"),
    }
}

/// A wake from a cut that the OS had asked for, with its console line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutWake {
    /// Bytes of the record.
    pub bytes: u64,
    /// Time from the OS's call to the commit, in microseconds.
    pub sleep_us: u64,
    /// Time for which the machine slept, in ms.
    pub slept_ms: u64,
    /// Time from the power-on to the end of the restore, in microseconds.
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

/// A wake from powered RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RamWake {
    /// The wake event.
    pub source: Source,
    /// Time for which the machine has retained, in ms.
    pub slept_ms: u64,
    /// Time of the wake event, in ticks.
    pub at: u64,
}

impl RamWake {
    /// The line of a domain whose turn comes `us` microseconds after the wake event. A machine's
    /// only domain has no name.
    #[must_use]
    pub fn of_domain<'e>(&self, domain: &'e str, us: u64) -> Event<'e> {
        let RamWake {
            source: by,
            slept_ms,
            ..
        } = *self;
        match domain {
            "" => Event::WokenFromRam {
                by,
                slept_ms,
                ms: us / 1000,
            },
            domain => Event::WokenWithMachine {
                domain,
                by,
                slept_ms,
                us,
            },
        }
    }
}

/// A sleep with a committed image, with its console line.
#[derive(Debug)]
pub struct SleepReport<'e> {
    /// The image, or those of a set together.
    pub saved: &'e Saves,
    /// The kind of image.
    pub kind: ImageKind,
    /// Duration of the whole sleep, in ms.
    pub ms: u64,
    /// Duration of save and commit, in ms.
    pub save_ms: u64,
    /// The image is sealed.
    pub sealed: bool,
}

/// The images of a sleep: one, or those of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Saves {
    /// Number of images.
    pub images: usize,
    /// Number of the sleep.
    pub generation: u64,
    /// Number of saved pages.
    pub saved_pages: u64,
    /// Bytes of the images.
    pub image_bytes: u64,
    /// Number of the OSes' free pages.
    pub free_pages: u64,
}

impl Saves {
    pub(crate) fn is_empty(&self) -> bool {
        self.images == 0
    }

    pub(crate) fn add(&mut self, saved: &Saved) {
        self.images += 1;
        self.generation = saved.generation();
        self.saved_pages += saved.saved_pages();
        self.image_bytes += saved.image_bytes();
    }
}

impl fmt::Display for SleepReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let saved = self.saved;
        write!(
            f,
            "sleep mode={} used_bytes={} saved_bytes={} ms={} save_ms={} free_bytes={} sealed={} generation={}",
            match self.kind {
                ImageKind::Once => SleepMode::Persist.name(),
                ImageKind::Snapshot => "snapshot",
            },
            saved.saved_pages * PAGE_BYTES,
            saved.image_bytes,
            self.ms,
            self.save_ms,
            saved.free_pages * PAGE_BYTES,
            yes_or_no(self.sealed),
            saved.generation,
        )
    }
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

/// The kind of image that wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageUse {
    /// The image of the latest sleep.
    Once,
    /// A snapshot.
    Snapshot {
        /// Its OS has reported a good wake.
        is_proven: bool,
    },
}

/// A wake from an image, with its text for the OS (`/chosen/poorwill,boot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeReport {
    /// The kind of image.
    pub image: ImageUse,
    /// Generation of the image.
    pub generation: u64,
    /// Bytes of memory that were loaded.
    pub loaded_bytes: u64,
    /// Duration of the load, in ms.
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
