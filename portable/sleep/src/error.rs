use core::fmt;

use poorwill_image::{NoRoom, OpenError, PowerFails, SaveError, StateError};
use poorwill_medium::MediumError;
use poorwill_medium::mapped::MappedError;
use poorwill_medium::nvme::NvmeError;
use poorwill_medium::pci::PciError;
use poorwill_store::{DiskChanged, Failure, GptError, NoImage, StoreError, UnguardedPartition};
use thiserror::Error;

use crate::cut::{CutReason, Misfit};
use crate::vault_state::VaultFault;

/// Why there is no sleep area to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AreaError {
    /// Neither an NVMe controller nor memory that could hold an area.
    #[error("no NVMe disk and no persistent memory")]
    NoDisk,
    /// No partition of our type.
    #[error("no sleep area on any NVMe disk or persistent memory")]
    NoArea,
    /// Which one to use is not for the firmware to guess.
    #[error("{0} sleep areas, where one is allowed")]
    TooManyAreas(usize),
    /// PCI.
    #[error("{0}")]
    Pci(#[from] PciError),
    /// NVMe.
    #[error("{0}")]
    Nvme(#[from] NvmeError),
    /// Mapped memory.
    #[error("{0}")]
    Mapped(#[from] MappedError),
    /// Partition table.
    #[error("{0}")]
    Table(#[from] GptError),
    /// The area itself.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl AreaError {
    /// Whether the machine merely lacks what sleeping needs.
    pub(crate) fn is_absence(self) -> bool {
        matches!(self, AreaError::NoDisk | AreaError::NoArea)
    }
}

/// What a machine lacks that cannot be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotArmed {
    /// No way to switch the power off.
    #[error("the machine cannot switch its power off")]
    NoPowerOff,
    /// No sleep area.
    #[error("{0}")]
    Area(AreaError),
    /// More memory than the firmware can keep track of.
    #[error("{0}")]
    Workspace(NoRoom),
}

/// What failed on the way to the commit. The machine goes on then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoSleep {
    /// The way to the sleep area.
    #[error("{0}")]
    Area(AreaError),
    /// The machine holds state that no image has.
    #[error("{0}")]
    Obstacle(#[from] Obstacle),
    /// There is a vault, and it cannot be used: a plain image would show its contents.
    #[error("{0}")]
    Vault(#[from] VaultFault),
    /// The sleep area.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The slot could not be opened.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// A snapshot could wake over a partition that was written to.
    #[error("{0}; `poorwill-guest snapshot --unguarded` takes the snapshot nevertheless")]
    Unguarded(#[from] UnguardedPartition),
    /// The machine's state.
    #[error("{0}")]
    State(#[from] NotKept),
    /// The image.
    #[error("{0}")]
    Save(#[from] SaveError),
    /// The commit, which is certain to have failed.
    #[error("the image was not committed: {0}")]
    Commit(StoreError),
    /// The power fails: the machine is to be cut.
    #[error(transparent)]
    PowerFails(#[from] PowerFails),
}

/// Why the state of harts or devices cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotKept {
    /// Its sections.
    #[error(transparent)]
    State(#[from] StateError),
    /// By its address: it is in the middle of something.
    #[error("the device at {0:#x} is in a state that cannot be kept")]
    Device(u64),
}

/// What keeps a machine from being saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// An IOMMU that translates: a device's addresses are not those of memory.
    #[error(
        "the IOMMU at {0:#x} is on, so the disk would not reach memory where it is told to: leave it off, or bare"
    )]
    Iommu(u64),
    /// A device that reaches memory and that only its driver can stop.
    #[error(
        "the device at {0:#x} is in use, and may write to memory while it is saved: its driver must stop it"
    )]
    LiveDevice(u64),
    /// Memory that the OS was given after the start.
    #[error("memory was added at {0:#x} after the start, and no image has it: take it out")]
    AddedMemory(u64),
}

/// Why the machine boots cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ColdBoot {
    /// A cut cannot be resumed.
    #[error("cut: {0}")]
    Cut(CutReason),
    /// There is no image, or it is refused.
    #[error("{0}")]
    NoWake(#[from] NoWake),
    /// No sleep area.
    #[error("no image: {0}")]
    NoArea(AreaError),
    /// A key was pressed.
    #[error("a key was pressed, and the snapshot does not wake")]
    Key,
    /// The disk or the area cannot be used.
    #[error("{0}")]
    Area(AreaError),
}

/// Why no image wakes though there is an area. Memory is untouched, and the images
/// in the area have been given up, as far as that was possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoWake {
    /// There is nothing to wake; the usual reason.
    #[error("{0}")]
    NoImage(#[from] NoImage),
    /// The last power-on had an image and could not load it.
    #[error("the image could not be loaded: {0}")]
    LastWakeFailed(Failure),
    /// The snapshot has failed too often in a row to be tried again.
    #[error("{}", Disabled(*tries, *failure))]
    Disabled {
        /// How often.
        tries: u32,
        /// Why the last time, as far as known.
        failure: Option<Failure>,
    },
    /// The image is refused.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// The words for [`NoWake::Disabled`].
struct Disabled(u32, Option<Failure>);

impl fmt::Display for Disabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disabled(tries, failure) = self;
        write!(
            f,
            "the snapshot is disabled after {tries} wakes in a row that failed"
        )?;
        match failure {
            Some(failure) => write!(f, ", the last one because {failure}"),
            None => f.write_str(": its OS has not said that it is well"),
        }
    }
}

/// Why an image is refused, before any of it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Damaged, forged, or of another machine.
    #[error("{0}")]
    Image(#[from] OpenError),
    /// Its machine state does not fit.
    #[error("{0}")]
    State(#[from] StateRefusal),
    /// More memory than the workspace is for.
    #[error("{0}")]
    Workspace(#[from] NoRoom),
    /// The slot cannot be read.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// It is not to wake: the machine's counter says so.
    #[error("the image must not be loaded: {0}")]
    Over(StoreError),
    /// It could not be marked consumed, so it must not be loaded.
    #[error("the image cannot be marked consumed: {0}")]
    NotConsumed(StoreError),
    /// The try of a snapshot could not be counted.
    #[error("the snapshot's record cannot be written: {0}")]
    NotCounted(StoreError),
}

/// Why the state of an image cannot be put back here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StateRefusal {
    /// A section is malformed, or not of this machine.
    #[error(transparent)]
    Section(#[from] StateError),
    /// A section that this version does not know.
    #[error("section {owner:#x} {number} of the machine's state is not known to this version")]
    Unknown {
        /// Whose it is.
        owner: u32,
        /// Which of the owner's.
        number: u16,
    },
    /// There is no section that says where the OS goes on.
    #[error("the machine's state does not say where the OS goes on")]
    NoCore,
    /// The hart that slept is not there.
    #[error("hart {0}, which slept, is not there")]
    NoHart(u64),
    /// The wake vector lies outside OS memory.
    #[error("the wake vector {0:#x} is not in OS memory")]
    WakeVector(u64),
    /// The image knows its disk otherwise.
    #[error("{0}: the image does not fit it any more")]
    Disk(#[from] DiskChanged),
    /// A snapshot that does not say that this is accepted, as one of an older Poorwill's.
    #[error("{0}: take the snapshot anew; `poorwill-guest snapshot --unguarded` accepts that")]
    Unguarded(UnguardedPartition),
    /// The partitions cannot be read.
    #[error("disk changes since the image was taken cannot be detected: {0}")]
    Partitions(AreaError),
}

impl From<StateRefusal> for Misfit {
    fn from(refusal: StateRefusal) -> Self {
        match refusal {
            StateRefusal::Section(error) => error.into(),
            StateRefusal::Unknown { owner, .. } => Misfit::Unknown(owner),
            StateRefusal::NoCore => Misfit::NoCore,
            StateRefusal::NoHart(hart) => Misfit::NoHart(hart),
            StateRefusal::WakeVector(address) => Misfit::WakeVector(address),
            // Those of an image alone.
            StateRefusal::Disk(_) | StateRefusal::Unguarded(_) | StateRefusal::Partitions(_) => {
                Misfit::Unnamed
            }
        }
    }
}

impl From<StateRefusal> for CutReason {
    fn from(refusal: StateRefusal) -> Self {
        CutReason::Misfit(refusal.into())
    }
}

impl From<NotKept> for CutReason {
    fn from(error: NotKept) -> Self {
        match error {
            NotKept::State(error) => error.into(),
            NotKept::Device(address) => CutReason::DeviceState(address),
        }
    }
}
