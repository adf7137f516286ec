use core::fmt;

use poorwill_image::{NoRoom, OpenError, PowerFails, SaveError, StateError};
use poorwill_medium::MediumError;
use poorwill_medium::mapped::MappedError;
use poorwill_medium::nvme::NvmeError;
use poorwill_pci::{Function, PciError};
use poorwill_store::{DiskChanged, Failure, GptError, NoImage, StoreError, UnguardedPartition};
use thiserror::Error;

use crate::cut::{CutReason, Misfit};
use crate::vault_state::VaultFault;

/// Why no sleep area can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AreaError {
    /// There is neither an NVMe controller nor memory that could hold an area.
    #[error("no NVMe disk and no persistent memory")]
    NoDisk,
    /// No partition has the type of sleep areas.
    #[error("no sleep area on any NVMe disk or persistent memory")]
    NoArea,
    /// There are several areas, and the firmware must not guess the right one.
    #[error("{0} sleep areas, where one is allowed")]
    TooManyAreas(usize),
    /// An error of PCI.
    #[error("{0}")]
    Pci(#[from] PciError),
    /// An IOMMU lets no device reach memory.
    #[error(
        "the IOMMU {0} is closed, so no disk reaches memory: leave it off at the start, and then bare"
    )]
    Iommu(Function),
    /// An error of NVMe.
    #[error("{0}")]
    Nvme(#[from] NvmeError),
    /// An error of mapped memory.
    #[error("{0}")]
    Mapped(#[from] MappedError),
    /// An error of a partition table.
    #[error("{0}")]
    Table(#[from] GptError),
    /// An error of the area.
    #[error("{0}")]
    Store(#[from] StoreError),
}

impl AreaError {
    /// Returns whether the machine just has no medium for a sleep.
    pub(crate) fn is_absence(self) -> bool {
        matches!(self, AreaError::NoDisk | AreaError::NoArea)
    }

    /// Returns whether a disk has a sleep area that cannot be used.
    pub(crate) fn concerns_area(self) -> bool {
        matches!(self, AreaError::Table(error) if error.concerns_area())
    }
}

/// Why a machine cannot be saved at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotArmed {
    /// The machine cannot switch its power off.
    #[error("the machine cannot switch its power off")]
    NoPowerOff,
    /// There is no usable sleep area.
    #[error("{0}")]
    Area(AreaError),
    /// A snapshot is configured on a machine with domains.
    #[error("there are no snapshots of domains: `poorwill area set` changes the configuration")]
    Snapshot,
    /// The machine has more memory than the firmware's workspace is for.
    #[error("{0}")]
    Workspace(NoRoom),
}

/// Why a save failed before its commit. The machine continues then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoSleep {
    /// The sleep area cannot be used.
    #[error("{0}")]
    Area(AreaError),
    /// The machine has state that an image cannot hold.
    #[error("{0}")]
    Obstacle(#[from] Obstacle),
    /// The vault exists, but cannot be used. A plain image would reveal the memory's contents.
    #[error("{0}")]
    Vault(#[from] VaultFault),
    /// The sleep area failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The slot could not be opened.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// A snapshot could wake over a partition that was written to.
    #[error("{0}; `poorwill-guest snapshot --unguarded` takes the snapshot nevertheless")]
    Unguarded(#[from] UnguardedPartition),
    /// The machine's state cannot be captured.
    #[error("{0}")]
    State(#[from] NotKept),
    /// The image cannot be written.
    #[error("{0}")]
    Save(#[from] SaveError),
    /// The commit has certainly failed.
    #[error("the image was not committed: {0}")]
    Commit(StoreError),
    /// The power fails, so the machine will be cut.
    #[error(transparent)]
    PowerFails(#[from] PowerFails),
}

/// Why the state of harts or devices cannot be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotKept {
    /// A section cannot be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The device at this address has not finished an operation.
    #[error("the device at {0:#x} is in a state that cannot be kept")]
    Device(u64),
    /// The sleeping hart of a domain does not answer.
    #[error("hart {0}, which sleeps, does not answer")]
    LateHart(u64),
}

/// Why an image of the machine would be wrong or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Obstacle {
    /// An IOMMU translates, so a device's addresses differ from physical ones.
    #[error(
        "the IOMMU at {0:#x} is on, so the disk would not reach memory where it is told to: leave it off, or bare"
    )]
    Iommu(u64),
    /// An IOMMU on PCI translates, and its driver does not set it up again after a power-off.
    #[error(
        "the IOMMU {0} is on, and would be off after the power-on: keep its driver from it (Linux: \
         initcall_blacklist=riscv_iommu_pci_driver_init), or remove it"
    )]
    PciIommu(Function),
    /// A device has access to memory, and only its driver can stop it.
    #[error(
        "the device at {0:#x} is in use, and may write to memory while it is saved: its driver must stop it"
    )]
    LiveDevice(u64),
    /// Memory was added to the running machine.
    #[error(
        "memory was added at {0:#x} after the start, and an image cannot include it: remove it"
    )]
    AddedMemory(u64),
}

/// Why the machine boots cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ColdBoot {
    /// A cut exists, but cannot be resumed.
    #[error("cut: {0}")]
    Cut(CutReason),
    /// There is no image, or it is refused.
    #[error("{0}")]
    NoWake(#[from] NoWake),
    /// There is no sleep area.
    #[error("no image: {0}")]
    NoArea(AreaError),
    /// The machine has domains, and no device of its own to save them on.
    #[error("the machine has domains, and no disk of its own")]
    Domains,
    /// The domain did not sleep with the others.
    #[error("no image of this domain")]
    NoPart,
    /// A key was pressed.
    #[error("a key was pressed, and the snapshot does not wake")]
    Key,
    /// The disk or the area cannot be used.
    #[error("{0}")]
    Area(AreaError),
}

/// Why no image wakes although there is an area. OS memory is unchanged, and the area's images are
/// discarded as far as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoWake {
    /// There is nothing to wake; the usual reason.
    #[error("{0}")]
    NoImage(#[from] NoImage),
    /// The last power-on could not load its image.
    #[error("the image could not be loaded: {0}")]
    LastWakeFailed(Failure),
    /// Too many wakes of the snapshot have failed in a row.
    #[error("{}", Disabled(*tries, *failure))]
    Disabled {
        /// Number of failed wakes.
        tries: u32,
        /// The reason of the last failure, if it is known.
        failure: Option<Failure>,
    },
    /// The image is refused.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

/// Shows [`NoWake::Disabled`].
struct Disabled(u32, Option<Failure>);

impl fmt::Display for Disabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Disabled(tries, failure) = self;
        write!(
            f,
            "the snapshot is disabled after {tries} failed wakes in a row"
        )?;
        match failure {
            Some(failure) => write!(f, ", the last one because {failure}"),
            None => f.write_str(": its OS has not reported a good wake"),
        }
    }
}

/// Why an image is refused before any part of it is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The image is damaged or forged, or belongs to another machine.
    #[error("{0}")]
    Image(#[from] OpenError),
    /// The machine's state in the image does not fit.
    #[error("{0}")]
    State(#[from] StateRefusal),
    /// The set has no image of any domain of this machine.
    #[error("the set is of other domains")]
    NoDomain,
    /// The image is of more memory than the workspace is for.
    #[error("{0}")]
    Workspace(#[from] NoRoom),
    /// The slot cannot be read.
    #[error("{0}")]
    Medium(#[from] MediumError),
    /// The machine's counter does not permit the image to wake.
    #[error("the image must not be loaded: {0}")]
    Over(StoreError),
    /// The image could not be marked as consumed, so it must not be loaded.
    #[error("the image cannot be marked consumed: {0}")]
    NotConsumed(StoreError),
    /// The snapshot's try could not be counted.
    #[error("the snapshot's record cannot be written: {0}")]
    NotCounted(StoreError),
}

/// Why the state in an image cannot be restored here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StateRefusal {
    /// A section is malformed, or another machine's.
    #[error(transparent)]
    Section(#[from] StateError),
    /// This version does not know a section.
    #[error("section {owner:#x} {number} of the machine's state is not known to this version")]
    Unknown {
        /// The section's owner.
        owner: u32,
        /// The section's number among those of its owner.
        number: u16,
    },
    /// The section with the wake vector is missing.
    #[error("the machine's state has no wake vector")]
    NoCore,
    /// The hart that slept is missing.
    #[error("this machine has no hart {0}, which slept")]
    NoHart(u64),
    /// The hart that slept belongs to another domain.
    #[error("hart {0}, which slept, is of another domain")]
    ForeignHart(u64),
    /// The hart that slept has other extensions than the hart that checks its state.
    #[error("hart {0}, which slept, has other extensions than the hart that wakes the machine")]
    OtherFeatures(u64),
    /// The wake vector lies outside OS memory.
    #[error("the wake vector {0:#x} is not in OS memory")]
    WakeVector(u64),
    /// A partition has changed since the image was made.
    #[error("{0}: the image does not fit it any more")]
    Disk(#[from] DiskChanged),
    /// A partition cannot be guarded, and the snapshot has no consent to that. Snapshots of older
    /// versions never have one.
    #[error("{0}: take the snapshot again; `poorwill-guest snapshot --unguarded` accepts that")]
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
            StateRefusal::NoHart(hart)
            | StateRefusal::ForeignHart(hart)
            | StateRefusal::OtherFeatures(hart) => Misfit::NoHart(hart),
            StateRefusal::WakeVector(address) => Misfit::WakeVector(address),
            // Only images have these refusals.
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
            NotKept::LateHart(hart) => CutReason::HartState(hart),
        }
    }
}
