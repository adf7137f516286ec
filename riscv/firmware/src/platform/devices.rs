//! The machine's properties and devices.

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{MAX_IOMMUS, MAX_PCI_HOSTS, PciHost};
use poorwill_drivers::Iommu;
use poorwill_memory::{MachineIdentity, MemoryMap, PhysRange};
use poorwill_sleep::{BootAttempt, LoadMark};
use poorwill_store::RecordFormat;
use spin::Once;

use super::caches;
use super::controllers::Interrupts;
use super::generation_id::GenerationId;
use super::mediated::Mediated;
use super::power_fail::{self, CutObstacle, PowerFail};

/// The machine's properties and devices, set once at power-on.
#[derive(Debug)]
pub(crate) struct Platform {
    /// Memory of all domains, which a sleep saves.
    pub(crate) memory: MemoryMap,
    /// The OS's memory is clear: see [`ram`](super::ram).
    pub(crate) memory_is_clear: bool,
    /// The snapshot's wake that was in progress when the machine was reset: see [`ram`](super::ram).
    pub(crate) last_attempt: Option<BootAttempt>,
    /// The load mark of the last start: see [`ram`](super::ram).
    pub(crate) last_load_mark: LoadMark,
    /// The firmware's own memory: the range that it was loaded into, and its second range.
    pub(crate) firmware: [PhysRange; 2],
    /// The vault's part of flash: a bank, or a partition of one.
    pub(crate) vault: Option<PhysRange>,
    pub(crate) mediated: &'static Mediated,
    /// What the machine keeps on a disk; `None`: all disks are the domains', so it only retains.
    pub(crate) keeps: Option<RecordFormat>,
    /// The real-time clock's page, if its time is mediated.
    pub(crate) clock_page: Option<PhysRange>,
    pub(crate) time: Time,
    /// `time` when the machine's start began.
    pub(crate) began: u64,
    pub(crate) interrupts: Interrupts,
    /// The OS's generation ID, if the machine supports it.
    pub(crate) generation_id: Option<GenerationId>,
    /// The power-fail line of the device tree, or why it cannot be used.
    pub(crate) power_fail: Option<Result<PowerFail, CutObstacle>>,
    pub(crate) iommus: ArrayVec<(u64, Iommu<Mmio>), MAX_IOMMUS>,
    pub(crate) pci: ArrayVec<PciHost, MAX_PCI_HOSTS>,
    /// Bytes of the cache blocks that every hart can write back; `None` if a hart cannot.
    pub(crate) cache_block: Option<u64>,
    pub(crate) identity: MachineIdentity,
}

static PLATFORM: Once<Platform> = Once::new();

/// Sets the platform, when the machine starts.
pub(crate) fn set_platform(platform: Platform) -> &'static Platform {
    let platform = PLATFORM.call_once(|| platform);
    if let Some(Ok(line)) = &platform.power_fail {
        power_fail::keep(line, &platform.time);
        caches::keep_memory(&platform.memory, platform.firmware[1]);
    }
    platform
}

/// The machine.
///
/// # Panics
///
/// Before [`set_platform`], when no code calls this.
pub(crate) fn platform() -> &'static Platform {
    let platform = PLATFORM.get();
    platform.expect("the platform is set up before anything uses it")
}

/// Milliseconds of the machine's time; 0 before [`set_platform`].
pub(crate) fn milliseconds() -> u64 {
    PLATFORM
        .get()
        .map_or(0, |platform| platform.time.milliseconds_since(0))
}

/// Milliseconds since the machine's start, or since the wake of its image; 0 before [`set_platform`].
pub(super) fn uptime_ms() -> u64 {
    let since = |platform: &Platform| platform.time.milliseconds_since(platform.began);
    PLATFORM.get().map_or(0, since)
}
