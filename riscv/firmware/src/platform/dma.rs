//! DMA on a machine with domains. Machine mode places the domains' PCI functions, and gives each one
//! a context of the IOMMU. The context maps its domain's memory and interrupt files to themselves.
//! All other functions are off, and have no context.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::pci::config_space;
use poorwill_arch::{IommuMemory, Mmio};
use poorwill_devicetree::{
    DomainFunction, DomainNode, FunctionRange, MAX_DOMAIN_FUNCTIONS, MAX_DOMAINS, MAX_HARTS,
    MAX_IOMMUS, Machine, Partition, RangeKind,
};
use poorwill_drivers::iommu::{
    Context, DeviceId, DmaRange, Fault, IommuError, TablePages, TranslatingIommu,
};
use poorwill_medium::pci::intx::Pin;
use poorwill_medium::pci::placement::{
    AddressKind, PlacedFunction, PlacedRange, PlacementError, Plan,
};
use poorwill_medium::pci::virtio::bypasses_iommu;
use poorwill_medium::pci::{ConfigSpace, Function, PciError};
use poorwill_memory::{MAX_RANGES, PAGE_BYTES, PhysRange};
use spin::{Mutex, Once};
use thiserror::Error;

use super::console::say;
use super::domain::{self, LiveDomain};
use super::platform;

/// Why the DMA of a domain's functions cannot be fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum DmaError {
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error(transparent)]
    Pci(#[from] PciError),
    #[error(transparent)]
    Iommu(#[from] IommuError),
    #[error(
        "virtio function {0} bypasses the IOMMU; connect it with `iommu_platform=on,disable-legacy=on`"
    )]
    BypassesIommu(Function),
    #[error("PCI function {0} uses pin {1:?} for its INTx; only INTA is supported")]
    Pin(Function, Pin),
}

type Iommu = TranslatingIommu<Mmio, IommuMemory>;

/// The machine's IOMMUs with the contexts of all functions, and each function's domain. Each IOMMU
/// has all contexts, so it does not matter which one sees a function.
struct Fences {
    iommus: ArrayVec<Iommu, MAX_IOMMUS>,
    owners: ArrayVec<(u16, u8), { MAX_DOMAINS * MAX_DOMAIN_FUNCTIONS }>,
}

static FENCES: Once<Mutex<Fences>> = Once::new();

/// Time of the next look for faults, in ticks.
static NEXT_LOOK: AtomicU64 = AtomicU64::new(0);
/// Time between two looks.
const LOOK_EVERY_MS: u64 = 100;
/// Most records that one look takes.
const RECORDS: u32 = 16;

/// Refused accesses of each domain.
static REFUSED: [AtomicU32; MAX_DOMAINS] = [const { AtomicU32::new(0) }; MAX_DOMAINS];

/// Bytes for the IOMMUs' tables and queues.
pub(super) fn table_bytes(partition: &Partition, machine: &Machine) -> u64 {
    let with_functions = || (partition.domains.iter()).filter(|node| !node.functions.is_empty());
    let maps = with_functions().count() as u64;
    if maps == 0 {
        return 0;
    }
    let devices = with_functions().map(|node| node.functions.len() as u64);
    // A hole splits a range of memory.
    let holes = machine.reserved.len() + 2;
    let ranges =
        with_functions().map(|node| (2 * node.regions.len() + holes + node.harts.len()) as u64);
    let pages = Iommu::max_pages(devices.sum(), maps, ranges.sum());
    pages * machine.iommus.len() as u64 * PAGE_BYTES
}

/// Turns off all PCI functions but those of domains, places these, and gives them contexts. The
/// domains are those of the partition, in its order; `tables` has [`table_bytes`].
///
/// # Errors
///
/// [`DmaError`]: no function reaches memory.
///
/// # Safety
///
/// `machine` describes this machine, no OS runs, and only this uses `tables`.
pub(super) unsafe fn start(
    partition: &Partition,
    machine: &Machine,
    tables: PhysRange,
) -> Result<(), DmaError> {
    let nodes = &partition.domains;
    let functions = || nodes.iter().flat_map(|node| &node.functions);
    let mut pages = TablePages::new(tables);
    let mut fences = Fences {
        iommus: ArrayVec::new(),
        owners: ArrayVec::new(),
    };
    if let Some(highest) = functions().map(highest_id).max() {
        for address in &machine.iommus {
            // SAFETY: passed on to the caller.
            let iommu = unsafe {
                let registers = Mmio::new(*address);
                Iommu::start(registers, IommuMemory::new(tables), &mut pages, highest)?
            };
            fences.iommus.push(iommu);
        }
    }
    // The check has refused functions on a machine with several hosts.
    for host in &machine.pci {
        // SAFETY: passed on to the caller.
        let config = unsafe { config_space(host) };
        let ranges = nodes.iter().flat_map(|node| &node.ranges);
        let plan = Plan::new(functions().map(placed_function), ranges.map(placed_range));
        plan.place(&config, &host.bridge)?;
        functions().try_for_each(|one| look(&config, one.function))?;
    }
    for (node, domain) in nodes.iter().zip(domain::all()) {
        fences.open(node, domain, machine, &mut pages)?;
    }
    if !fences.iommus.is_empty() {
        FENCES.call_once(|| Mutex::new(fences));
    }
    Ok(())
}

/// The highest device ID of a function, and of those below it.
fn highest_id(one: &DomainFunction) -> DeviceId {
    let last = one.buses.map_or(one.function.bus, |(_, last)| last);
    DeviceId(u32::from(last) << 8 | 0xff)
}

fn placed_function(one: &DomainFunction) -> PlacedFunction {
    PlacedFunction {
        function: one.function,
        buses: one.buses,
    }
}

fn placed_range(range: &FunctionRange) -> PlacedRange {
    PlacedRange {
        function: range.function,
        register: range.register,
        kind: match range.kind {
            RangeKind::Io => AddressKind::Io,
            RangeKind::Memory32 => AddressKind::Memory32,
            RangeKind::Memory64 => AddressKind::Memory64,
        },
        range: range.range,
    }
}

/// Looks for facts that only the bus shows.
fn look(config: &impl ConfigSpace, function: Function) -> Result<(), DmaError> {
    if bypasses_iommu(config, function)? {
        return Err(DmaError::BypassesIommu(function));
    }
    match Pin::of(config, function) {
        None | Some(Pin::A) => Ok(()),
        Some(pin) => Err(DmaError::Pin(function, pin)),
    }
}

impl Fences {
    /// Gives the domain's functions a context.
    fn open(
        &mut self,
        node: &DomainNode,
        domain: &LiveDomain,
        machine: &Machine,
        pages: &mut TablePages,
    ) -> Result<(), DmaError> {
        if node.functions.is_empty() {
            return Ok(());
        }
        let harts = machine
            .harts
            .iter()
            .filter(|hart| domain.harts.contains(hart.id));
        let files = harts.filter_map(|hart| hart.os_imsic);
        let files = files.map(|file| PhysRange::new(file.address, PAGE_BYTES << file.guest_bits));
        let reachable = domain.memory.ranges().iter().copied().chain(files);
        let ranges: ArrayVec<DmaRange, { MAX_RANGES + MAX_HARTS }> = reachable
            .map(|range| DmaRange {
                range,
                is_writable: true,
            })
            .collect();
        for iommu in &mut self.iommus {
            let map = Context::Mapped(iommu.map(pages, &ranges)?);
            for one in &node.functions {
                iommu.set(pages, one.function.into(), &map)?;
            }
        }
        let owned = node.functions.iter().map(|one| one.function.routing_id());
        self.owners.extend(owned.map(|id| (id, domain.index as u8)));
        Ok(())
    }

    /// The domain of a device.
    fn owner(&self, device: DeviceId) -> Option<&'static LiveDomain> {
        let mut owners = self.owners.iter();
        let (_, index) = owners.find(|(id, _)| u32::from(*id) == device.0)?;
        domain::all().nth(usize::from(*index))
    }
}

/// Closes the contexts of the domain's functions: they reach no memory any more. The lock is held
/// for the bounded time of another such change or look.
pub(crate) fn close(domain: &LiveDomain) {
    let Some(fences) = FENCES.get() else { return };
    let mut fences = fences.lock();
    let Fences { iommus, owners } = &mut *fences;
    for (id, _) in owners
        .iter()
        .filter(|(_, index)| usize::from(*index) == domain.index)
    {
        for iommu in &mut *iommus {
            if let Err(error) = iommu.close(DeviceId(u32::from(*id))) {
                say!("domain {}: {error}", domain.name);
            }
        }
    }
}

/// Takes records of refused accesses and reports them, in a call of a domain. The domain that wakes
/// first is spared; the others do it at most ten times a second.
pub(crate) fn look_for_faults(caller: &LiveDomain) {
    let Some(fences) = FENCES.get().filter(|_| caller.index > 0) else {
        return;
    };
    let time = &platform().time;
    let (now, due) = (time.ticks(), NEXT_LOOK.load(Ordering::Relaxed));
    let next = now.saturating_add(time.ticks_in(LOOK_EVERY_MS * 1_000_000));
    if now < due
        || NEXT_LOOK
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    let Some(mut fences) = fences.try_lock() else {
        return;
    };
    let mut faults = ArrayVec::<Fault, { RECORDS as usize }>::new();
    for iommu in &mut fences.iommus {
        iommu.drain_faults(RECORDS - faults.len() as u32, |fault| faults.push(fault));
    }
    for fault in faults {
        match fences.owner(fault.device) {
            Some(domain) => report(domain, &fault),
            None => say!(
                "PCI function {} has no domain: {}",
                fault.device,
                fault.cause
            ),
        }
    }
}

/// Reports the first refused access of a domain, the second, the fourth, and so on.
fn report(domain: &LiveDomain, fault: &Fault) {
    let count = REFUSED[domain.index]
        .fetch_add(1, Ordering::Relaxed)
        .saturating_add(1);
    if count.is_power_of_two() {
        say!(
            "domain {}: DMA of device {} to {:#x} refused, number {count}: {}",
            domain.name,
            fault.device,
            fault.address,
            fault.cause,
        );
    }
}
