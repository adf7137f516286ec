//! Sets the machine up: its devices, its domains and their protection.

use core::slice;

use poorwill_arch::{Mmio, Time};
use poorwill_devicetree::{Hart, Machine, Partition, identity_with};
use poorwill_domain::pmp::Pmp;
use poorwill_domain::{self as domains, DivideError};
use poorwill_drivers::Iommu;
use poorwill_memory::{MachineIdentity, MemoryMap, PAGE_BYTES, Page, PhysRange};
use poorwill_sleep::WarmResetRecord;
use thiserror::Error;

use super::memory::{self, Memory};
use super::partition;
use super::previous::{Described, Previous};
use crate::domain::{self, pmp};
use crate::entry::stack::{self, Stacks};
use crate::platform::mediated::{Mediated, Mediates};
use crate::platform::power_fail::{CutObstacle, PowerFail};
use crate::platform::{
    Platform, bus, entropy, generation_id, interrupts, platform, ram, set_platform, vault,
};

/// Why the machine cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Memory(#[from] DivideError),
    #[error(transparent)]
    Domain(#[from] domain::MakeError),
    #[error(transparent)]
    Pmp(#[from] pmp::PmpError),
    #[error("domains need physical memory protection (PMP), and hart {0} has none")]
    Unprotected(u64),
    #[error(transparent)]
    Partition(#[from] partition::Refused),
}

impl StartError {
    /// Returns whether a reset may help: a device has not answered.
    pub(super) fn may_pass(self) -> bool {
        match self {
            StartError::Partition(refused) => refused.may_pass,
            StartError::Memory(_)
            | StartError::Domain(_)
            | StartError::Pmp(_)
            | StartError::Unprotected(_) => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Started {
    pub(super) platform: &'static Platform,
    pub(super) stacks: Stacks,
    /// Pages for the record of cuts.
    pub(super) cut_pages: &'static mut [Page],
    pub(super) pages: &'static mut [Page],
}

/// Sets up the machine.
///
/// `previous` is what the previous boot stage left. `data_pages` returns the firmware's pages for a
/// number of pages of all memory, without the `cut_pages` for cuts.
///
/// # Errors
///
/// [`StartError`].
///
/// # Safety
///
/// `machine` describes this machine, [`start_console`](crate::platform::start_console) was called, no OS runs on it yet,
/// and this is called once.
pub(super) unsafe fn start(
    machine: &Machine,
    previous: &Previous<'_>,
    data_pages: fn(u64) -> u64,
    cut_pages: usize,
) -> Result<Started, StartError> {
    let bytes = memory::data_bytes(machine, |all| cut_pages as u64 + data_pages(all));
    // SAFETY: passed on to the caller.
    unsafe {
        let memory = match previous.domains {
            Described::Fenced(partition) => partition::start(machine, partition, previous, bytes)?,
            Described::Lone(_) | Described::None => memory::divide(machine, previous, bytes)?,
        };
        set_up(machine, previous, memory, bytes, cut_pages)
    }
}

/// Sets up the devices of a machine whose memory is divided, and hands the firmware's pages out.
///
/// # Errors
///
/// [`StartError`].
///
/// # Safety
///
/// As for [`start`].
// Not inlined: its 30 KiB must not lie on the deep stack while a partition is read.
#[inline(never)]
unsafe fn set_up(
    machine: &Machine,
    previous: &Previous<'_>,
    memory: Memory,
    bytes: u64,
    cut_pages: usize,
) -> Result<Started, StartError> {
    let (lone, fenced) = (previous.lone(), previous.domains.are_fenced());
    let Memory {
        firmware,
        data,
        taken,
        os: memory,
    } = memory;
    // SAFETY: by the caller's contract the device tree is right; each device is set up once, here;
    // everything that is neither firmware nor device is the OS's.
    let platform = unsafe {
        entropy::start(machine);
        let time = Time::new(machine);
        // Without PMP the OS can reach everything, so no vault is used.
        let protection = pmp::probe();
        if fenced && !protection.is_there() {
            return Err(StartError::Unprotected(machine.harts[0].id));
        }
        let vault = protection
            .is_there()
            .then(|| vault::find(machine, time.clone()))
            .flatten();
        bus::start(machine, vault, protection.is_there(), &time, domain::owner);
        let generation_id = match fenced {
            true => None,
            false => generation_id::GenerationId::new(machine),
        };
        let warm_reset = ram::find(firmware);
        if let Some(taken) = taken {
            domain::start(machine, &memory, taken, vault, lone)?;
        }
        let own = [firmware, data].into_iter().chain(vault);
        let readable = generation_id.as_ref().map(|id| id.page());
        let mediates = protect(machine, own, readable, protection, fenced)?;
        Platform {
            began: time.ticks(),
            identity: identity(machine, &memory, previous.domains.digest()),
            power_fail: match taken {
                Some(taken) => PowerFail::find(machine, memory.ranges(), [[firmware, data], taken]),
                None => machine.power_fail.map(|_| Err(CutObstacle::Domains)),
            },
            memory,
            memory_is_clear: machine.starts_clear && warm_reset == WarmResetRecord::None,
            last_attempt: warm_reset.attempt(),
            last_load_mark: ram::load_mark(firmware),
            firmware: [firmware, data],
            vault,
            mediated: Mediated::start(machine, mediates),
            keeps: previous.domains.keep(),
            clock_page: machine.rtc.filter(|_| fenced).map(page_of),
            time,
            interrupts: interrupts::Interrupts::new(machine, domain::owner),
            generation_id,
            iommus: (machine.iommus.iter())
                .map(|at| (*at, Iommu::new(Mmio::new(*at))))
                .collect(),
            pci: machine.pci.iter().cloned().collect(),
            cache_block: machine.cache_block(),
        }
    };
    platform.interrupts.shared().start();
    (platform.power_fail.iter().flatten()).for_each(PowerFail::start);
    platform.open_iommus();
    // SAFETY: passed on to the caller.
    Ok(unsafe { hand_out(platform, machine, bytes, cut_pages) })
}

/// Closes memory to all PCI functions but those of the partition's domains. Before this the
/// firmware's own disks reach memory, and after it they do not.
///
/// # Errors
///
/// [`StartError::Partition`].
///
/// # Safety
///
/// As for [`start`]; this is called once, after it.
pub(super) unsafe fn fence_dma(
    machine: &Machine,
    partition: &'static Partition,
) -> Result<(), StartError> {
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
    let (stacks, pages) = pages.split_at_mut(stack::pages_needed(memory::stacks(machine)));
    let (cut_pages, pages) = pages.split_at_mut(cut_pages);
    Started {
        stacks: Stacks::new(stacks, harts_with_stacks(machine)),
        platform: set_platform(platform),
        cut_pages,
        pages,
    }
}

/// Makes the PMP plan of each domain, for harts with the PMP `protection`. Returns the registers that
/// are mediated, since they are closed.
fn protect(
    machine: &Machine,
    own: impl Iterator<Item = PhysRange> + Clone,
    readable: Option<PhysRange>,
    protection: Pmp,
    fenced: bool,
) -> Result<Mediates, pmp::PmpError> {
    // The kept ranges of a partition include the rest.
    let rest = domains::closed(machine, own).filter(|_| !fenced);
    let closed = rest.chain(partition::kept().iter().copied());
    let mut plics = !fenced;
    for domain in domain::all() {
        // Among domains only one has a PLIC: it need not be mediated, as no other one takes its
        // interrupts.
        let wished = machine.mediated_plic_registers().filter(|_| !fenced);
        plics &= pmp::start(domain, closed.clone(), wished, readable, protection)?;
    }
    // Domains that are fenced have the clock's time alone, and no configuration device.
    Ok(Mediates {
        plics,
        clock: fenced,
        fw_cfgs: !fenced,
    })
}

/// The machine's identity, to which the digest of its partition belongs.
fn identity(machine: &Machine, memory: &MemoryMap, partition: Option<u64>) -> MachineIdentity {
    let whole = machine.identity(memory.ranges());
    partition.map_or(whole, |digest| identity_with(digest, whole))
}

fn page_of(address: u64) -> PhysRange {
    PhysRange::new(address & !(PAGE_BYTES - 1), PAGE_BYTES)
}

/// IDs of the harts that leave entry.S, in the order of [`hart::all`](crate::hart::all); after them
/// the weak hart's.
fn harts_with_stacks(machine: &Machine) -> impl Iterator<Item = u64> + Clone {
    let weak = machine.executor.and_then(Result::ok);
    let of_domains = harts_of_domains(machine).map(|hart| hart.id);
    of_domains.chain(weak.map(|weak| weak.hart.id))
}

/// The harts that have a domain. The others stay in machine mode.
fn harts_of_domains(machine: &Machine) -> impl Iterator<Item = &Hart> + Clone {
    let harts = machine.harts.iter();
    harts.filter(|hart| domain::of(hart.id).is_some())
}
