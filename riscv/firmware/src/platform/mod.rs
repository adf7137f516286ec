//! The machine: what its device tree says, and the devices that machine mode
//! drives.

pub(crate) mod console;
pub(crate) mod entropy;
pub(crate) mod fence;
mod flash;
pub(crate) mod generation_id;
pub(crate) mod interrupts;
pub(crate) mod mmio;
pub(crate) mod pci;
pub(crate) mod power;
mod ram;
pub(crate) mod time;
pub(crate) mod vault;

use arrayvec::ArrayVec;
use poorwill_devicetree::{DescriptionError, MAX_HARTS, Machine};
use poorwill_memory::{MachineIdentity, OsMemory, OsMemoryError, PhysRange};
use spin::Once;
use thiserror::Error;

use crate::hart::Hart;
pub(crate) use ram::Trial;

/// Everything about the machine, set once at power-on.
#[derive(Debug)]
pub(crate) struct Platform {
    /// The harts that can run the OS.
    pub(crate) harts: ArrayVec<Hart, MAX_HARTS>,
    /// The memory that is the OS's.
    pub(crate) memory: OsMemory,
    /// The OS's memory is clear: see [`ram`].
    pub(crate) memory_is_clear: bool,
    /// The trial of a snapshot that a reset has ended: see [`ram`].
    trial: Option<Trial>,
    /// The firmware's own.
    pub(crate) firmware: PhysRange,
    /// The flash bank that is the vault's.
    pub(crate) vault: Option<PhysRange>,
    /// Clocks.
    pub(crate) time: time::Time,
    /// Interrupt controllers.
    pub(crate) interrupts: interrupts::Interrupts,
    /// What the OS may touch.
    pub(crate) fence: fence::Fence,
    /// By which the OS notices a wake, where it can be told of one.
    pub(crate) generation_id: Option<generation_id::GenerationId>,
    /// PCI host bridges.
    pub(crate) pci: ArrayVec<poorwill_devicetree::PciHost, 4>,
    /// Bytes of the blocks by which every hart can write its caches back; `None`
    /// where one cannot.
    pub(crate) cache_block: Option<u64>,
    /// What tells this machine from others.
    pub(crate) identity: MachineIdentity,
}

/// Why the machine cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PlatformError {
    /// The device tree is of no use.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// The memory is of no use.
    #[error(transparent)]
    Memory(#[from] OsMemoryError),
}

static PLATFORM: Once<Platform> = Once::new();

/// The machine.
///
/// # Panics
///
/// Before [`start`], which no code that is reached does.
pub(crate) fn platform() -> &'static Platform {
    PLATFORM
        .get()
        .expect("the platform is set up before anything uses it")
}

unsafe extern "C" {
    #[link_name = "FIRMWARE_BASE"]
    static FIRMWARE_BASE: u8;
    #[link_name = "FIRMWARE_SIZE"]
    static FIRMWARE_SIZE: u8;
}

/// The memory that is the firmware's (firmware.ld).
fn firmware_range() -> PhysRange {
    PhysRange::new(
        (&raw const FIRMWARE_BASE).addr() as u64,
        (&raw const FIRMWARE_SIZE).addr() as u64,
    )
}

/// Takes the machine into use: the console first, so that whatever follows can
/// say why it failed.
///
/// # Errors
///
/// [`PlatformError`].
///
/// # Safety
///
/// `tree` describes this machine, and no OS runs on it yet.
pub(crate) unsafe fn start(tree: &[u8]) -> Result<&'static Platform, PlatformError> {
    let (machine, result) = Machine::survey(tree);
    // SAFETY: the device tree is right, says the caller, as far as it goes; console
    // and switches are taken into use once, here.
    unsafe {
        if let Some(uart) = machine.console {
            console::start(uart);
        }
        power::start(&machine);
    }
    result?;
    let firmware = firmware_range();
    // SAFETY: the device tree is right, says the caller; each device is taken
    // into use once, here; what is neither firmware nor device is the OS's.
    let platform = unsafe {
        entropy::start(&machine);
        let time = time::Time::new(&machine);
        let vault = vault::find(&machine, time.clone());
        let generation_id = generation_id::GenerationId::new(&machine);
        let left = ram::find(&machine, firmware);
        let open = generation_id.as_ref().map(|id| id.page());
        Platform {
            harts: machine.harts.iter().map(|hart| Hart::new(*hart)).collect(),
            memory: OsMemory::new(&machine.memory, &[firmware])?,
            memory_is_clear: left.is_clear,
            trial: left.trial,
            firmware,
            vault,
            time,
            interrupts: interrupts::Interrupts::new(&machine),
            fence: fence::Fence::new(open, firmware, vault, &machine),
            generation_id,
            pci: machine.pci.iter().cloned().collect(),
            cache_block: machine.cache_block(),
            identity: machine.fingerprint,
        }
    };
    platform.interrupts.start();
    Ok(PLATFORM.call_once(|| platform))
}

impl Platform {
    /// The snapshot's wake that a reset has cut short, and how long it went on, in
    /// ms. `None`: this is no reset, no snapshot ran, or its trial was over.
    pub(crate) fn failed_trial(&self) -> Option<(Trial, u32)> {
        let trial = self.trial?;
        let ran_ns = self.time.now_ns()?.saturating_sub(trial.woken_at_ns);
        let ran_ms = ran_ns / 1_000_000;
        let ms = u32::try_from(ran_ms).unwrap_or(u32::MAX);
        (ran_ms <= trial.trial_ms).then_some((trial, ms))
    }

    /// Leaves word that a snapshot is about to wake. A machine without a clock that
    /// outlives a reset cannot tell afterwards how long it was on trial.
    pub(crate) fn begin_trial(&self, generation: u64, trial_ms: u32) {
        let Some(woken_at_ns) = self.time.now_ns() else {
            return;
        };
        let trial = Trial {
            generation,
            woken_at_ns,
            trial_ms: trial_ms.into(),
        };
        // SAFETY: the firmware's own memory, and the one hart that wakes the
        // machine is alone with it.
        unsafe { ram::leave(self.firmware, trial) }
    }
}
