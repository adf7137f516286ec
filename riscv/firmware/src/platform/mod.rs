//! The machine: its device tree, and machine mode's devices.

pub(crate) mod bus;
mod caches;
pub(crate) mod console;
pub(crate) mod entropy;
mod flash;
pub(crate) mod generation_id;
pub(crate) mod interrupts;
pub(crate) mod loaded;
pub(crate) mod mediated;
pub(crate) mod memory_controller;
pub(crate) mod power;
pub(crate) mod power_fail;
pub(crate) mod ram;
pub(crate) mod vault;
pub(crate) mod virtio;
pub(crate) mod wait_clock;

use arrayvec::ArrayVec;
use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{MAX_IOMMUS, MAX_PCI_HOSTS, Machine};
use poorwill_drivers::Iommu;
use poorwill_memory::{MachineIdentity, MemoryMap, PhysRange};
use poorwill_sleep::{BootAttempt, LoadMark};
use power_fail::{CutObstacle, PowerFail};
use spin::Once;

/// The machine's properties and devices, set once at power-on.
#[derive(Debug)]
pub(crate) struct Platform {
    /// Memory of all domains, which a sleep saves.
    pub(crate) memory: MemoryMap,
    /// The OS's memory is clear: see [`ram`].
    pub(crate) memory_is_clear: bool,
    /// The snapshot's wake that was in progress when the machine was reset: see [`ram`].
    pub(crate) last_attempt: Option<BootAttempt>,
    /// The load mark of the last start: see [`ram`].
    pub(crate) last_load_mark: LoadMark,
    /// The firmware's own memory: the range that it was loaded into, and its second range.
    pub(crate) firmware: [PhysRange; 2],
    /// The vault's part of flash: a bank, or a partition of one.
    pub(crate) vault: Option<PhysRange>,
    pub(crate) mediated: &'static mediated::Mediated,
    /// All disks are the domains', so the machine cannot be saved.
    pub(crate) only_retains: bool,
    /// The real-time clock's page, if its time is mediated.
    pub(crate) clock_page: Option<PhysRange>,
    pub(crate) time: Time,
    /// `time` when the machine's start began.
    pub(crate) began: u64,
    pub(crate) interrupts: interrupts::Interrupts,
    /// The OS's generation ID, if the machine supports it.
    pub(crate) generation_id: Option<generation_id::GenerationId>,
    /// The power-fail line of the device tree, or why it cannot be used.
    pub(crate) power_fail: Option<Result<PowerFail, CutObstacle>>,
    pub(crate) iommus: ArrayVec<(u64, Iommu<Mmio>), MAX_IOMMUS>,
    pub(crate) pci: ArrayVec<poorwill_devicetree::PciHost, MAX_PCI_HOSTS>,
    /// Bytes of the cache blocks that every hart can write back; `None` if a hart cannot.
    pub(crate) cache_block: Option<u64>,
    pub(crate) identity: MachineIdentity,
}

static PLATFORM: Once<Platform> = Once::new();

/// Sets the platform, when the machine starts.
pub(crate) fn set_platform(platform: Platform) -> &'static Platform {
    PLATFORM.call_once(|| platform)
}

/// The machine.
///
/// # Panics
///
/// Before [`start`], when no code calls this.
pub(crate) fn platform() -> &'static Platform {
    PLATFORM
        .get()
        .expect("the platform is set up before anything uses it")
}

/// Milliseconds of the machine's time; 0 before [`start`].
pub(crate) fn milliseconds() -> u64 {
    let time = PLATFORM.get().map(|platform| &platform.time);
    time.map_or(0, |time| time.milliseconds_in(time.ticks()))
}

/// Milliseconds since the machine's start, or since the wake of its image; 0 before [`start`].
fn uptime_ms() -> u64 {
    let since = |platform: &Platform| platform.time.milliseconds_since(platform.began);
    PLATFORM.get().map_or(0, since)
}

unsafe extern "C" {
    #[link_name = "FIRMWARE_BASE"]
    static FIRMWARE_BASE: u8;
    #[link_name = "FIRMWARE_SIZE"]
    static FIRMWARE_SIZE: u8;
}

/// The range that the firmware was loaded into (firmware.ld).
pub(crate) fn firmware_range() -> PhysRange {
    PhysRange::new(
        (&raw const FIRMWARE_BASE).addr() as u64,
        (&raw const FIRMWARE_SIZE).addr() as u64,
    )
}

/// Sets up the console and reset control, so that errors can be reported, also those in the rest of
/// the tree.
///
/// # Safety
///
/// `machine` describes this machine, even if incompletely, and this is called once.
pub(crate) unsafe fn start_console(machine: &Machine) {
    // SAFETY: passed on to the caller.
    unsafe {
        if let Some(uart) = machine.console {
            console::start(uart);
        }
        power::start(machine);
        console::start_log(ram::log(firmware_range()));
    }
}

impl Platform {
    /// Opens the IOMMUs that the device tree names, so that disks reach memory.
    pub(crate) fn open_iommus(&self) {
        for (address, iommu) in &self.iommus {
            if let Err(error) = iommu.open() {
                console::say!("IOMMU at {address:#x}: {error}");
            }
        }
    }
}
