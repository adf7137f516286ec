//! DMA on a machine with domains. Machine mode places the domains' PCI functions, and gives each one
//! a context of the IOMMU. The context maps its domain's memory and interrupt files to themselves.
//! Machine mode's own functions reach its work memory, and the memory of domains at rest. All others
//! are off, and have no context.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrayvec::ArrayVec;
use poorwill_arch::pci::config_space;
use poorwill_arch::{IommuMemory, Mmio};
use poorwill_devicetree::{
    DomainNode, MAX_DOMAIN_FUNCTIONS, MAX_DOMAINS, MAX_IOMMUS, Machine, Partition,
};
use poorwill_drivers::iommu::{
    Context, DeviceId, DmaRange, Fault, IdentityMap, IommuError, TablePages, TranslatingIommu,
};
use poorwill_memory::{PAGE_BYTES, PhysRange};
use poorwill_pci::intx::Pin;
use poorwill_pci::placement::{PlacedFunction, PlacedRange, PlacementError, Plan};
use poorwill_pci::virtio::bypasses_iommu;
use poorwill_pci::{ConfigSpace, Function, PciError, disable_intx, take_access};
use spin::{Mutex, Once};
use thiserror::Error;

use super::{LiveDomain, all};
use crate::platform::console::say;
use crate::platform::platform;

/// Why the DMA of a domain's functions cannot be fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum DmaError {
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

impl DmaError {
    /// Returns whether a reset may help: a device has not answered, or not as it should.
    pub(crate) fn may_pass(self) -> bool {
        match self {
            DmaError::Placement(error) => matches!(
                error,
                PlacementError::Absent(_) | PlacementError::Stuck(_) | PlacementError::Pci(_)
            ),
            DmaError::Pci(_) | DmaError::Iommu(_) => true,
            DmaError::BypassesIommu(_) | DmaError::Pin(..) => false,
        }
    }
}

type Iommu = TranslatingIommu<Mmio, IommuMemory>;

/// The machine's IOMMUs with the contexts of all functions, and each function's domain. Each IOMMU
/// has all contexts, so it does not matter which one sees a function.
struct Fences {
    iommus: ArrayVec<Iommu, MAX_IOMMUS>,
    /// Each IOMMU's map of machine mode's own functions; none without such functions.
    own: ArrayVec<IdentityMap, MAX_IOMMUS>,
    owned: ArrayVec<Owned, { MAX_DOMAINS * MAX_DOMAIN_FUNCTIONS }>,
}

/// The partition with machine mode's own functions, once they are placed.
static OWN: Once<&Partition> = Once::new();

/// A function with a context, and its domain's index.
#[derive(Clone, Copy)]
struct Owned {
    function: PlacedFunction,
    domain: usize,
}

static FENCES: Once<Mutex<Fences>> = Once::new();

/// The looks for faults.
struct Looks {
    /// Time of the next one, in ticks.
    next: AtomicU64,
    /// Refused accesses of each domain, and then of devices without one.
    refused: [AtomicU32; MAX_DOMAINS + 1],
    /// Looks that found an IOMMU without access to its queue.
    failed: AtomicU32,
}

static LOOKS: Looks = Looks {
    next: AtomicU64::new(0),
    refused: [const { AtomicU32::new(0) }; MAX_DOMAINS + 1],
    failed: AtomicU32::new(0),
};

/// Time between two looks.
const LOOK_EVERY_MS: u64 = 100;
/// Most records that one look takes.
const RECORDS: usize = 16;

/// Turns off all PCI functions but those of the partition, places these, and gives them contexts.
/// The domains are those of the partition, in its order; `tables` has `table_bytes`. `work` is the
/// memory of sleeps and wakes, in which machine mode's own functions have their queues.
///
/// # Errors
///
/// [`DmaError`]: no function reaches memory.
///
/// # Safety
///
/// `machine` describes this machine, no OS runs, and only this uses `tables`.
pub(crate) unsafe fn start(
    partition: &'static Partition,
    machine: &Machine,
    tables: PhysRange,
    work: PhysRange,
) -> Result<(), DmaError> {
    let nodes = &partition.domains;
    let of_domains = || nodes.iter().flat_map(|node| &node.functions);
    let functions = || of_domains().chain(&partition.functions);
    let mut pages = TablePages::new(tables);
    let mut fences = Fences {
        iommus: ArrayVec::new(),
        own: ArrayVec::new(),
        owned: ArrayVec::new(),
    };
    if let Some(highest) = functions().map(PlacedFunction::highest_id).max() {
        for address in &machine.iommus {
            // SAFETY: passed on to the caller.
            let iommu = unsafe {
                let registers = Mmio::new(*address);
                Iommu::start(
                    registers,
                    IommuMemory::new(tables),
                    &mut pages,
                    DeviceId(highest),
                )?
            };
            fences.iommus.push(iommu);
        }
    }
    // The check has refused functions on a machine with several hosts.
    for host in &machine.pci {
        // SAFETY: passed on to the caller.
        let config = unsafe { config_space(host) };
        let ranges = nodes.iter().flat_map(|node| &node.ranges);
        let ranges = ranges.chain(&partition.ranges).map(PlacedRange::from);
        let plan = Plan::new(functions().copied(), ranges);
        plan.place(&config, &host.bridge)?;
        of_domains().try_for_each(|one| look(&config, one.function))?;
        let own = partition.functions.iter();
        own.for_each(|one| disable_intx(&config, one.function));
    }
    fences.open_own(partition, work, &mut pages)?;
    for (node, domain) in nodes.iter().zip(all()) {
        fences.open(node, domain, machine, &mut pages)?;
    }
    if !fences.iommus.is_empty() {
        FENCES.call_once(|| Mutex::new(fences));
    }
    OWN.call_once(|| partition);
    Ok(())
}

/// Machine mode's own functions, which are placed, with their addresses.
pub(crate) fn own() -> impl Iterator<Item = (Function, impl Iterator<Item = PlacedRange>)> {
    let partition = OWN.get().copied();
    let functions = partition.into_iter().flat_map(|partition| {
        let functions = partition.functions.iter();
        functions.map(move |one| (partition, one.function))
    });
    functions.map(|(partition, function)| {
        let ranges = partition.ranges.iter().map(PlacedRange::from);
        (
            function,
            ranges.filter(move |range| range.function == function),
        )
    })
}

/// Runs `job` while machine mode's own functions reach the memory of each domain at rest. A domain
/// that goes on meanwhile is taken out before by [`exclude`]. What an IOMMU does not open stays shut:
/// the disk fails there.
pub(crate) fn admit<R>(job: impl FnOnce() -> R) -> R {
    let at_rest = || all().filter(|domain| domain.state.is_at_rest());
    if let Some(fences) = FENCES.get() {
        for domain in at_rest() {
            if let Err(error) = fences.lock().set_open(domain, true) {
                say!("domain {}: machine mode's disk: {error}", domain.name);
            }
        }
    }
    let result = job();
    at_rest().for_each(exclude);
    result
}

/// Takes a domain's memory from machine mode's own functions, before the domain runs. If an IOMMU
/// does not answer, they lose all memory.
pub(crate) fn exclude(domain: &LiveDomain) {
    let excluded = FENCES
        .get()
        .map(|fences| fences.lock().set_open(domain, false));
    let Some(Err(error)) = excluded else { return };
    say!("domain {}: machine mode's disk: {error}", domain.name);
    for host in &platform().pci {
        // SAFETY: the device tree describes the bridge; only machine mode uses these functions.
        let config = unsafe { config_space(host) };
        own().for_each(|(function, _)| cut_own(&config, function));
    }
}

/// Takes the access to memory from one of machine mode's own functions, which does not stop. An
/// IOMMU does that without a write to the configuration space, which would delay harts that run.
pub(crate) fn cut_own(config: &impl ConfigSpace, function: Function) {
    let Some(fences) = FENCES.get() else {
        return take_access(config, function);
    };
    let closed = fences
        .lock()
        .iommus
        .iter_mut()
        .try_for_each(|iommu| iommu.close(function.into()));
    if let Err(error) = closed {
        say!("PCI function {function}: {error}");
        take_access(config, function);
    }
}

/// Runs `job` while all functions reach memory, before any domain runs.
///
/// # Errors
///
/// [`DmaError::Iommu`]: no function reaches memory.
pub(crate) fn open_for<R>(job: impl FnOnce() -> R) -> Result<R, DmaError> {
    fn open<R>(iommus: &mut [Iommu], job: impl FnOnce() -> R) -> Result<R, IommuError> {
        match iommus.split_first_mut() {
            None => Ok(job()),
            Some((first, rest)) => first.open_for(|| open(rest, job))?,
        }
    }
    match FENCES.get() {
        None => Ok(job()),
        Some(fences) => Ok(open(&mut fences.lock().iommus, job)?),
    }
}

/// Returns whether machine mode's IOMMUs fence the functions.
pub(crate) fn is_fenced() -> bool {
    FENCES.get().is_some()
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

fn writable(range: PhysRange) -> DmaRange {
    DmaRange {
        range,
        is_writable: true,
        is_open: true,
    }
}

impl Fences {
    /// Gives machine mode's own functions a context with the work memory, and no domain's yet.
    fn open_own(
        &mut self,
        partition: &Partition,
        work: PhysRange,
        pages: &mut TablePages,
    ) -> Result<(), DmaError> {
        if partition.functions.is_empty() {
            return Ok(());
        }
        let memory = all().flat_map(|domain| domain.memory.ranges()).copied();
        let shut = memory.map(|range| DmaRange {
            is_open: false,
            ..writable(range)
        });
        let ranges = core::iter::once(writable(work)).chain(shut);
        for iommu in &mut self.iommus {
            let map = iommu.map(pages, ranges.clone())?;
            for one in &partition.functions {
                iommu.set(pages, one.function.into(), &Context::Mapped(map))?;
            }
            self.own.push(map);
        }
        Ok(())
    }

    /// Lets machine mode's own functions reach a domain's memory, or not.
    fn set_open(&mut self, domain: &LiveDomain, is_open: bool) -> Result<(), IommuError> {
        let ranges = domain.memory.ranges();
        (self.iommus.iter_mut().zip(&self.own)).try_for_each(|(iommu, map)| {
            ranges
                .iter()
                .try_for_each(|range| iommu.set_open(map, *range, is_open))
        })
    }

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
        let ranges = domain.memory.ranges().iter().copied().chain(files);
        for iommu in &mut self.iommus {
            let map = Context::Mapped(iommu.map(pages, ranges.clone().map(writable))?);
            for one in &node.functions {
                iommu.set(pages, one.function.into(), &map)?;
            }
        }
        let domain = domain.index;
        let owned = (node.functions.iter()).map(|one| Owned {
            function: *one,
            domain,
        });
        self.owned.extend(owned);
        Ok(())
    }

    /// The domain of a device, by its index.
    fn owner(&self, device: DeviceId) -> Option<usize> {
        let mut owned = self.owned.iter();
        owned
            .find(|one| one.function.has_id(device.0))
            .map(|one| one.domain)
    }
}

/// Closes the contexts of the domain's functions: they reach no memory any more. Another such change
/// or look holds the lock for a bounded time.
pub(crate) fn close(domain: &LiveDomain) {
    let Some(fences) = FENCES.get() else { return };
    let mut fences = fences.lock();
    let Fences { iommus, owned, .. } = &mut *fences;
    for one in owned.iter().filter(|one| one.domain == domain.index) {
        for iommu in &mut *iommus {
            if let Err(error) = iommu.close(one.function.function.into()) {
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
    let (now, due) = (time.ticks(), LOOKS.next.load(Ordering::Relaxed));
    let next = now.saturating_add(time.ticks_in(LOOK_EVERY_MS * 1_000_000));
    if now < due
        || LOOKS
            .next
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    let Some(mut fences) = fences.try_lock() else {
        return;
    };
    let mut faults = ArrayVec::<(Option<usize>, Fault), RECORDS>::new();
    let (mut overflows, mut has_failed) = (None, false);
    for index in 0..fences.iommus.len() {
        let room = faults.remaining_capacity() as u32;
        let mut found = ArrayVec::<Fault, RECORDS>::new();
        let iommu = &mut fences.iommus[index];
        let drained = iommu.drain_faults(room, |fault| found.push(fault));
        if drained.has_overflowed {
            overflows = Some(iommu.overflows());
        }
        has_failed |= drained.has_failed;
        faults.extend((found.into_iter()).map(|fault| (fences.owner(fault.device), fault)));
    }
    // A line may take long: no domain waits for the lock meanwhile.
    drop(fences);
    // Before the records, whose lines may leave no room.
    if let Some(count) = overflows.filter(|count| count.is_power_of_two()) {
        caller.say(format_args!(
            "refused DMA: records were lost, as the IOMMU's queue was full; number {count}"
        ));
    }
    if has_failed && count_one(&LOOKS.failed).is_power_of_two() {
        caller.say(format_args!(
            "refused DMA: records were lost, as the IOMMU could not write them"
        ));
    }
    for (owner, fault) in faults {
        report(caller, owner, &fault);
    }
}

/// Counts one more; returns the number.
fn count_one(counter: &AtomicU32) -> u32 {
    (counter.fetch_add(1, Ordering::Relaxed)).saturating_add(1)
}

/// Reports the first refused access of a domain, the second, the fourth, and so on, among the lines
/// that the caller causes.
fn report(caller: &LiveDomain, owner: Option<usize>, fault: &Fault) {
    let count = count_one(&LOOKS.refused[owner.unwrap_or(MAX_DOMAINS)]);
    if !count.is_power_of_two() {
        return;
    }
    let name = owner.and_then(|index| all().nth(index));
    let name = name.map_or("none", |domain| domain.name.as_str());
    caller.say_about(
        name,
        format_args!(
            "domain {name}: DMA of device {} to {:#x} refused, number {count}: {}",
            fault.device, fault.address, fault.cause,
        ),
    );
}
