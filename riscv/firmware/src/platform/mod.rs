//! The machine: its device tree, and machine mode's devices.

pub(crate) mod bus;
mod caches;
pub(crate) mod console;
pub(crate) mod dma;
pub(crate) mod domain;
pub(crate) mod entropy;
mod flash;
pub(crate) mod generation_id;
pub(crate) mod interrupts;
mod mediated;
pub(crate) mod memory_controller;
mod partition;
pub(crate) mod pmp;
pub(crate) mod power;
pub(crate) mod power_fail;
mod ram;
pub(crate) mod vault;
pub(crate) mod virtio;
pub(crate) mod wait_clock;

use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use domain::LoneDomain;
pub(crate) use partition::{Described, Previous, describe};
use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{
    Hart, MAX_IOMMUS, MAX_PCI_HOSTS, MAX_RESERVED, MAX_WEAR_RANGES, Machine, Partition,
    identity_with, place,
};
use poorwill_domain::memory_of;
use poorwill_domain::pmp::Pmp;
use poorwill_drivers::Iommu;
use poorwill_memory::{MachineIdentity, MemoryMap, MemoryMapError, PAGE_BYTES, Page, PhysRange};
use poorwill_sleep::{BootAttempt, LoadMark, WarmResetRecord};
use power_fail::{CutObstacle, PowerFail};
use spin::Once;
use thiserror::Error;

use crate::entry::stack::{self, Stacks};

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
    /// The real-time clock's page, if its time is mediated.
    pub(crate) clock_page: Option<PhysRange>,
    pub(crate) time: Time,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PlatformError {
    #[error(transparent)]
    Memory(#[from] MemoryMapError),
    #[error("no range of memory has room for the firmware's {0} bytes")]
    NoRoom(u64),
    #[error(transparent)]
    Domain(#[from] domain::StartError),
    #[error(transparent)]
    Pmp(#[from] pmp::PmpError),
    #[error("domains need physical memory protection (PMP), and hart {0} has none")]
    Unprotected(u64),
    #[error(transparent)]
    Partition(#[from] partition::Refused),
}

impl PlatformError {
    /// Returns whether a reset may help: a device has not answered.
    pub(crate) fn may_pass(self) -> bool {
        match self {
            PlatformError::Partition(refused) => refused.may_pass,
            PlatformError::Memory(_)
            | PlatformError::NoRoom(_)
            | PlatformError::Domain(_)
            | PlatformError::Pmp(_)
            | PlatformError::Unprotected(_) => false,
        }
    }
}

/// Maximum number of ranges that the firmware's second range must avoid: the tree's reserved
/// ranges, the firmware, the next stage and the tree, and if possible wear-levelled memory.
const MAX_TAKEN: usize = MAX_RESERVED + 3 + MAX_WEAR_RANGES;

static PLATFORM: Once<Platform> = Once::new();

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
fn milliseconds() -> u64 {
    let time = PLATFORM.get().map(|platform| &platform.time);
    time.map_or(0, |time| time.milliseconds_in(time.ticks()))
}

/// `time` when the machine's start began.
static BEGAN: AtomicU64 = AtomicU64::new(0);

/// Milliseconds since the machine's start, or since the wake of its image; 0 before [`start`].
fn uptime_ms() -> u64 {
    let began = BEGAN.load(Ordering::Relaxed);
    let time = PLATFORM.get().map(|platform| &platform.time);
    time.map_or(0, |time| time.milliseconds_since(began))
}

unsafe extern "C" {
    #[link_name = "FIRMWARE_BASE"]
    static FIRMWARE_BASE: u8;
    #[link_name = "FIRMWARE_SIZE"]
    static FIRMWARE_SIZE: u8;
}

#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) platform: &'static Platform,
    pub(crate) stacks: Stacks,
    /// Pages for the record of cuts.
    pub(crate) cut_pages: &'static mut [Page],
    pub(crate) pages: &'static mut [Page],
}

/// The range that the firmware was loaded into (firmware.ld).
fn firmware_range() -> PhysRange {
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

/// Sets up the machine.
///
/// `previous` is what the previous boot stage left. `data_pages` returns the firmware's pages for a
/// number of pages of all memory, without the `cut_pages` for cuts.
///
/// # Errors
///
/// [`PlatformError`].
///
/// # Safety
///
/// `machine` describes this machine, [`start_console`] was called, no OS runs on it yet,
/// and this is called once.
pub(crate) unsafe fn start(
    machine: &Machine,
    previous: &Previous<'_>,
    data_pages: fn(u64) -> u64,
    cut_pages: usize,
) -> Result<Started, PlatformError> {
    let bytes = data_bytes(machine, |all| cut_pages as u64 + data_pages(all));
    // SAFETY: passed on to the caller.
    unsafe {
        let memory = divide(machine, previous, bytes)?;
        let lone = match &previous.domains {
            Described::Lone(lone) => Some(lone.with_tree(previous.information.tree.start)),
            Described::None | Described::Fenced(_) => None,
        };
        set_up(machine, lone, memory, bytes, cut_pages)
    }
}

/// Sets up the devices of a machine whose memory is divided, and hands the firmware's pages out.
///
/// # Errors
///
/// [`PlatformError`].
///
/// # Safety
///
/// As for [`start`].
// Not inlined: its 30 KiB must not lie on the deep stack while a partition is read.
#[inline(never)]
unsafe fn set_up(
    machine: &Machine,
    lone: Option<LoneDomain<'_>>,
    memory: Memory,
    bytes: u64,
    cut_pages: usize,
) -> Result<Started, PlatformError> {
    let Memory {
        firmware,
        data,
        taken,
        os: memory,
    } = memory;
    let is_partitioned = domain::is_partitioned();
    // SAFETY: by the caller's contract the device tree is right; each device is set up once, here;
    // everything that is neither firmware nor device is the OS's.
    let platform = unsafe {
        entropy::start(machine);
        let time = Time::new(machine);
        // Without PMP the OS can reach everything, so no vault is used.
        let protection = pmp::probe();
        if is_partitioned && !protection.is_there() {
            return Err(PlatformError::Unprotected(machine.harts[0].id));
        }
        let vault = protection
            .is_there()
            .then(|| vault::find(machine, time.clone()))
            .flatten();
        bus::start(machine, vault, protection.is_there(), &time);
        let generation_id = match is_partitioned {
            true => None,
            false => generation_id::GenerationId::new(machine),
        };
        let warm_reset = ram::find(firmware);
        if !is_partitioned {
            domain::start(machine, &memory, taken, vault, lone)?;
        }
        let own = [firmware, data].into_iter().chain(vault);
        let readable = generation_id.as_ref().map(|id| id.page());
        let has_plics = protect(machine, own, readable, protection)?;
        Platform {
            identity: identity(machine, &memory, lone),
            power_fail: match is_partitioned {
                true => machine.power_fail.map(|_| Err(CutObstacle::Domains)),
                false => PowerFail::find(machine, memory.ranges(), [[firmware, data], taken]),
            },
            memory,
            memory_is_clear: machine.starts_clear && warm_reset == WarmResetRecord::None,
            last_attempt: warm_reset.attempt(),
            last_load_mark: ram::load_mark(firmware),
            firmware: [firmware, data],
            vault,
            mediated: mediated::Mediated::start(machine, has_plics),
            clock_page: (machine.rtc.filter(|_| is_partitioned)).map(page_of),
            time,
            interrupts: interrupts::Interrupts::new(machine),
            generation_id,
            iommus: (machine.iommus.iter())
                .map(|address| (*address, Iommu::new(Mmio::new(*address))))
                .collect(),
            pci: machine.pci.iter().cloned().collect(),
            cache_block: machine.cache_block(),
        }
    };
    BEGAN.store(platform.time.ticks(), Ordering::Relaxed);
    platform.interrupts.shared().start();
    (platform.power_fail.iter().flatten()).for_each(PowerFail::start);
    platform.open_iommus();
    // SAFETY: passed on to the caller.
    Ok(unsafe { hand_out(platform, machine, bytes, cut_pages) })
}

/// Closes memory to all PCI functions but those of the partition's domains. Before this the firmware's own disks reach memory, and after it they do not.
///
/// # Errors
///
/// [`PlatformError::Partition`].
///
/// # Safety
///
/// As for [`start`]; this is called once, after it.
pub(crate) unsafe fn fence_dma(
    machine: &Machine,
    partition: &Partition,
) -> Result<(), PlatformError> {
    // SAFETY: passed on to the caller.
    unsafe {
        Ok(partition::fence_dma(
            machine,
            partition,
            platform().firmware[1],
        )?)
    }
}

/// Divides the first `bytes` of the firmware's second range, and sets the platform. Tables of IOMMUs
/// may follow.
///
/// # Safety
///
/// As for [`start`]; this is called once.
unsafe fn hand_out(platform: Platform, machine: &Machine, bytes: u64, cut_pages: usize) -> Started {
    let [_, data] = platform.firmware;
    let first = core::ptr::with_exposed_provenance_mut(data.start as usize);
    // SAFETY: memory, by the device tree. Only the firmware uses it from here on, and it is handed
    // out once. Any bits are a page.
    let pages = unsafe { slice::from_raw_parts_mut(first, bytes as usize / size_of::<Page>()) };
    let (stacks, pages) = pages.split_at_mut(stack::pages_needed(machine.harts.len()));
    let (cut_pages, pages) = pages.split_at_mut(cut_pages);
    Started {
        stacks: Stacks::new(stacks, harts_of_domains(machine).map(|hart| hart.id)),
        platform: PLATFORM.call_once(|| platform),
        cut_pages,
        pages,
    }
}

/// The machine's memory, by owner.
struct Memory {
    /// The range that the firmware was loaded into.
    firmware: PhysRange,
    /// The firmware's second range.
    data: PhysRange,
    /// Memory of the next stage and its tree, on a machine without a partition.
    taken: [PhysRange; 2],
    /// Memory of all domains.
    os: MemoryMap,
}

/// Divides the machine's memory. The firmware's second range needs `bytes`. A partition's domains
/// are set up by this.
///
/// # Safety
///
/// As for [`start`].
unsafe fn divide(
    machine: &Machine,
    previous: &Previous<'_>,
    bytes: u64,
) -> Result<Memory, PlatformError> {
    let firmware = firmware_range();
    let taken = match &previous.domains {
        Described::Lone(lone) => lone.taken(),
        Described::None | Described::Fenced(_) => {
            (previous.information).taken(&machine.memory, previous.load)
        }
    };
    // SAFETY: passed on to the caller.
    let data = unsafe { partition::start(machine, previous, firmware, bytes)? };
    let (data, os) = match data {
        Some(data) => (data, partition::memory()?),
        None => {
            let data = data_range(machine, firmware, taken, bytes)?;
            let own = [firmware, data];
            let os = match &previous.domains {
                Described::Lone(lone) => {
                    let memory = memory_of(lone.node, &machine.memory);
                    let memory = memory.map_err(domain::StartError::from)?;
                    os_memory(machine, &memory, own, taken)?
                }
                Described::None | Described::Fenced(_) => {
                    os_memory(machine, &machine.memory, own, taken)?
                }
            };
            (data, os)
        }
    };
    Ok(Memory {
        firmware,
        data,
        taken,
        os,
    })
}

/// Makes the PMP plan of each domain, for harts with the PMP `protection`. Returns whether the
/// machine's PLICs are closed.
fn protect(
    machine: &Machine,
    own: impl Iterator<Item = PhysRange> + Clone,
    readable: Option<PhysRange>,
    protection: Pmp,
) -> Result<bool, pmp::PmpError> {
    let registers = machine.machine_only.iter().chain(&machine.fw_cfg);
    // The kept ranges of a partition include the rest.
    let is_partitioned = domain::is_partitioned();
    let rest = own.chain(registers.copied()).filter(|_| !is_partitioned);
    let closed = rest.chain(partition::kept().iter().copied());
    let mut has_plics = !is_partitioned;
    for domain in domain::all() {
        let plics = mediated::plic_registers(machine).map(|(range, _)| range);
        // Among domains only one has a PLIC: it need not be mediated, as no other one takes its
        // interrupts.
        let plics = plics.filter(|_| !is_partitioned);
        has_plics &= pmp::start(domain, closed.clone(), plics, readable, protection)?;
    }
    Ok(has_plics)
}

/// Bytes of the firmware's second range of memory.
fn data_bytes(machine: &Machine, data_pages: impl FnOnce(u64) -> u64) -> u64 {
    let all: u64 = machine.memory.iter().map(PhysRange::length).sum();
    let stacks = stack::pages_needed(machine.harts.len()) as u64;
    (stacks + data_pages(all / PAGE_BYTES)) * PAGE_BYTES
}

/// Places the firmware's second range of memory.
fn data_range(
    machine: &Machine,
    firmware: PhysRange,
    taken: [PhysRange; 2],
    bytes: u64,
) -> Result<PhysRange, PlatformError> {
    let reserved = machine.reserved.iter().map(|reserved| reserved.range);
    let mut others: ArrayVec<PhysRange, MAX_TAKEN> = reserved.collect();
    others.push(firmware);
    others.extend(taken);
    let all = others.len();
    // If possible it avoids wear-levelled memory, which cannot be found without the controller's
    // registers.
    others.extend(machine.memory_controller.wear_levelled.iter().copied());
    place(&machine.memory, &others, bytes)
        .or_else(|| place(&machine.memory, &others[..all], bytes))
        .ok_or(PlatformError::NoRoom(bytes))
}

/// The machine's identity, to which a lone domain's partition belongs.
fn identity(
    machine: &Machine,
    memory: &MemoryMap,
    lone: Option<LoneDomain<'_>>,
) -> MachineIdentity {
    let whole = machine.identity(memory.ranges());
    lone.map_or(whole, |lone| identity_with(lone.digest, whole))
}

fn page_of(address: u64) -> PhysRange {
    PhysRange::new(address & !(PAGE_BYTES - 1), PAGE_BYTES)
}

/// The OS's part of `memory`: all but the firmware's and foreign memory.
fn os_memory(
    machine: &Machine,
    memory: &[PhysRange],
    firmware: [PhysRange; 2],
    taken: [PhysRange; 2],
) -> Result<MemoryMap, MemoryMapError> {
    let loaded = taken.map(|range| range.start);
    let holes = machine.foreign(&loaded).chain(firmware);
    let holes: ArrayVec<PhysRange, MAX_TAKEN> = holes.collect();
    MemoryMap::new(memory, &holes)
}

/// The harts that have a domain. The others stay in machine mode.
pub(crate) fn harts_of_domains(machine: &Machine) -> impl Iterator<Item = &Hart> + Clone {
    let harts = machine.harts.iter();
    harts.filter(|hart| domain::of(hart.id).is_some())
}

impl Platform {
    /// Opens the IOMMUs that the device tree names, so that disks reach memory.
    fn open_iommus(&self) {
        for (address, iommu) in &self.iommus {
            if let Err(error) = iommu.open() {
                console::say!("IOMMU at {address:#x}: {error}");
            }
        }
    }
}
