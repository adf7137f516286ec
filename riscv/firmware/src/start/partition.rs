//! Sets up the domains of a partition (docs/domains.md).
#![allow(
    clippy::result_large_err,
    reason = "an error names what is wrong, and ends the start"
)]

use core::fmt::Display;
use core::slice;

use arrayvec::ArrayVec;
use poorwill_devicetree::{
    DescriptionError, DomainNode, Fdt, MAX_DOMAINS, MAX_HARTS, MAX_RESERVED, MAX_SPANS, Machine,
    NodeName, Partition, PciWiring, Reserved, place, reserved_of,
};
use poorwill_domain::check::{Facts, findings};
use poorwill_domain::pmp::{MAX_PLANNED, TooManyRanges};
use poorwill_domain::{
    Domain, DomainError, FwDynamic, KeptRanges, LoadedStage, Surroundings, has_everything,
    memory_of,
};
use poorwill_drivers::iommu::table_bytes;
use poorwill_memory::{MAX_RANGES, MemoryMap, MemoryMapError, PhysRange};
use spin::Once;
use thiserror::Error;

use super::memory::Memory;
use super::previous::{Described, Lone, Previous};
use crate::domain::dma::{self, DmaError};
use crate::domain::{self, AddedDomain, pmp};
use crate::hart;
use crate::platform::console::say;
use crate::platform::firmware_range;

/// The machine's partition is refused; the console has the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the partition is refused: {reasons} reason{}", if *reasons == 1 { "" } else { "s" })]
pub(super) struct Refused {
    reasons: u32,
    /// A reset may change the reason, since a device has not answered.
    pub(super) may_pass: bool,
}

/// The reasons against a partition. The console gets each one, up to a bound.
#[derive(Debug, Default)]
struct Reasons {
    count: u32,
    may_pass: bool,
}

/// The most reasons that the console gets.
const MOST_REASONS: u32 = 20;

impl Reasons {
    fn add(&mut self, reason: impl Display) {
        self.count += 1;
        if self.count <= MOST_REASONS {
            say!("partition: {reason}");
        }
    }

    /// # Errors
    ///
    /// There is a reason.
    fn check(&self) -> Result<(), Refused> {
        if self.count > MOST_REASONS {
            let more = self.count - MOST_REASONS;
            say!("partition: {more} more; `poorwill domains check` prints all");
        }
        match self.count {
            0 => Ok(()),
            reasons => Err(Refused {
                reasons,
                may_pass: self.may_pass,
            }),
        }
    }
}

impl Refused {
    fn because(error: SetupError) -> Self {
        let mut reasons = Reasons {
            may_pass: matches!(error, SetupError::Dma(error) if error.may_pass()),
            ..Reasons::default()
        };
        reasons.add(error);
        Refused {
            reasons: reasons.count,
            may_pass: reasons.may_pass,
        }
    }
}

/// Why a partition that can be fenced cannot be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum SetupError {
    #[error(transparent)]
    Dma(#[from] DmaError),
    #[error(transparent)]
    Domain(#[from] DomainError),
    #[error(transparent)]
    Kept(#[from] TooManyRanges),
    #[error(transparent)]
    Memory(#[from] MemoryMapError),
    #[error("domain {0}: {1}")]
    Tree(NodeName, DescriptionError),
    #[error("the stages and reserved ranges of all domains are more than {MAX_TAKEN}")]
    TooManyTaken,
    #[error(
        "neither memory of no domain nor a domain with a device tree has room for the firmware's {0} bytes"
    )]
    NoRoom(u64),
}

/// The machine's partition. It is too large for the deep stack, of which the vault needs a half.
static PARTITION: Once<Partition> = Once::new();

/// Maximum number of ranges that the firmware's second range must avoid on a machine with a
/// partition.
const MAX_TAKEN: usize = 64;

type Taken = ArrayVec<PhysRange, MAX_TAKEN>;

/// Harts that may boot the machine.
pub(super) type BootHarts = ArrayVec<u64, MAX_HARTS>;

/// The machine's domains, and the harts that may boot the machine cold for them: these have a domain,
/// and the tree does not leave them out. A lone domain's next stage starts on that domain's boot
/// hart.
///
/// # Errors
///
/// [`Refused`].
// Not inlined: a partition takes 16 KiB of the deep stack.
#[inline(never)]
pub(super) fn describe(
    tree: Option<Fdt<'_>>,
    machine: &Machine,
    information: &mut FwDynamic,
    load: fn(u64, &mut [u8]),
) -> Result<(Described, BootHarts), Refused> {
    let harts = machine.harts.iter().map(|hart| hart.id);
    let listed = harts
        .clone()
        .filter(|hart| machine.cold_boot_harts.contain(*hart));
    let Some(tree) = tree else {
        return Ok((Described::None, listed.collect()));
    };
    let mut reasons = Reasons::default();
    let mut is_there = false;
    let partition = PARTITION.call_once(|| {
        let mut partition = Partition::default();
        is_there = partition.survey(&tree, &mut |error| reasons.add(error));
        partition
    });
    reasons.check()?;
    if !is_there {
        return Ok((Described::None, listed.collect()));
    }
    check(partition, &tree, machine, information, load)?;
    let has_domain = |hart: &u64| partition.domain_of(*hart).is_some();
    let without = harts.clone().filter(|hart| !has_domain(hart));
    without.for_each(|hart| say!("hart {hart} has no domain, and stays in machine mode"));
    let may_boot = harts.filter(|hart| has_domain(hart) && partition.may_boot_cold(*hart));
    let may_boot = waking_harts(partition, may_boot.collect());
    let described = match partition.lone() {
        None => Described::Fenced(partition),
        Some(node) => {
            let stage = LoadedStage::find(node, information, &machine.memory, load);
            information.boot_hart = Some(node.boot_hart);
            Described::Lone(Lone {
                stage,
                node,
                digest: partition.digest(),
            })
        }
    };
    Ok((described, may_boot))
}

/// The harts among those that may boot the machine, to which it belongs to wake a set: those of the
/// domain that wakes last, since the others do not wait for the hart that drives the wake.
fn waking_harts(partition: &Partition, may_boot: BootHarts) -> BootHarts {
    let last = partition.domains.last();
    let is_last = |hart: &u64| last.is_some_and(|last| last.harts.contains(hart));
    let waits = !partition.functions.is_empty() && may_boot.iter().any(is_last);
    may_boot
        .into_iter()
        .filter(|hart| !waits || is_last(hart))
        .collect()
}

/// Checks that the domains can be fenced, and that their next stages are in their memory.
///
/// # Errors
///
/// [`Refused`].
fn check(
    partition: &Partition,
    tree: &Fdt<'_>,
    machine: &Machine,
    information: &FwDynamic,
    load: fn(u64, &mut [u8]),
) -> Result<(), Refused> {
    let firmware = [firmware_range()];
    let protection = pmp::probe();
    // A domain that has everything may run without protection, as an OS without domains.
    let has_fences = !partition.lone().is_some_and(has_everything);
    let facts = Facts {
        machine,
        tree: Some(*tree),
        wiring: PciWiring::first(tree),
        firmware: &firmware,
        pmp: (protection.is_there() || has_fences).then_some(protection),
        sleep_disks: None,
    };
    let mut reasons = Reasons::default();
    findings(partition, &facts, &mut |finding| reasons.add(finding));
    // A lone domain's next stage may lie in flash, too. It is checked when it starts.
    let fenced = partition
        .domains
        .iter()
        .filter(|_| partition.lone().is_none());
    for node in fenced {
        let stage = LoadedStage::find(node, information, &machine.memory, load);
        let checked = stage.check(node, &machine.memory, &firmware);
        checked.unwrap_or_else(|error| reasons.add(error));
    }
    reasons.check()
}

/// Sets up the domains of the partition, which [`describe`] has checked, and divides the machine's
/// memory. The firmware's second range has `bytes`, and the tables of the IOMMUs after them.
///
/// # Errors
///
/// [`Refused`].
///
/// # Safety
///
/// `machine` describes this machine, no OS runs on it yet, and the previous stage left `previous`.
pub(super) unsafe fn start(
    machine: &Machine,
    partition: &Partition,
    previous: &Previous<'_>,
    bytes: u64,
) -> Result<Memory, Refused> {
    let firmware = firmware_range();
    // SAFETY: passed on to the caller.
    let data = unsafe { set_up(machine, partition, previous, firmware, bytes) };
    let memory = data.and_then(|data| {
        Ok(Memory {
            firmware,
            data,
            taken: None,
            os: memory_of_all()?,
        })
    });
    memory.map_err(Refused::because)
}

/// Sets up the domains, and returns the firmware's second range.
///
/// # Safety
///
/// As for [`start`].
// Not inlined: its stages and ranges must not lie on the deep stack for the rest of the start.
#[inline(never)]
unsafe fn set_up(
    machine: &Machine,
    partition: &Partition,
    previous: &Previous<'_>,
    firmware: PhysRange,
    bytes: u64,
) -> Result<PhysRange, SetupError> {
    let stages: ArrayVec<LoadedStage, MAX_DOMAINS> = (partition.domains.iter())
        .map(|node| LoadedStage::find(node, previous.information, &machine.memory, previous.load))
        .collect();
    // SAFETY: the previous stage left these trees, and no other code uses them yet.
    let taken = unsafe { taken(machine, partition, &stages, firmware)? };
    let tables = table_bytes(partition, machine);
    let data = second_range(machine, partition, &stages, &taken, bytes + tables)?;
    add_domains(
        machine,
        previous,
        partition,
        &stages,
        [firmware, data],
        &taken,
    )?;
    Ok(data)
}

/// Closes memory to all PCI functions, and gives domains theirs. `data` is the firmware's second
/// range, as for [`start`].
///
/// # Errors
///
/// [`Refused`].
///
/// # Safety
///
/// As for [`start`]; this is called once, after it.
pub(super) unsafe fn fence_dma(
    machine: &Machine,
    partition: &'static Partition,
    data: PhysRange,
) -> Result<(), Refused> {
    let tables = table_bytes(partition, machine);
    let tables = PhysRange::new(data.end - tables, tables);
    // SAFETY: passed on to the caller; nothing else uses the end of the second range.
    let fenced = unsafe { dma::start(partition, machine, tables, hart::memory::range()) };
    fenced.map_err(|error| Refused::because(error.into()))
}

/// The ranges that machine mode keeps from domains that are fenced.
static KEPT: Once<ArrayVec<PhysRange, MAX_PLANNED>> = Once::new();

/// The ranges that machine mode keeps from domains that are fenced; none without such domains.
pub(super) fn kept() -> &'static [PhysRange] {
    KEPT.get().map_or(&[], |kept| kept)
}

/// Makes the domains. `own`: the firmware's memory.
fn add_domains(
    machine: &Machine,
    previous: &Previous<'_>,
    partition: &Partition,
    stages: &[LoadedStage],
    own: [PhysRange; 2],
    taken: &Taken,
) -> Result<(), SetupError> {
    let holes = machine.foreign(&[]).chain(own);
    let holes: ArrayVec<PhysRange, { MAX_RESERVED + 2 }> = holes.collect();
    let kept = KeptRanges::new(partition, machine, &own)?;
    let closed = kept.ranges().try_into().map_err(|_| TooManyRanges)?;
    KEPT.call_once(|| closed);
    let around = Surroundings {
        memory: &machine.memory,
        holes: &holes,
        kept: &kept,
        reserved: taken,
        tree: previous.information.tree.start,
    };
    for (node, stage) in partition.domains.iter().zip(stages) {
        domain::add(AddedDomain {
            node,
            domain: Domain::of_node(node, stage, &around)?,
            console: machine.console,
            takes_interrupts: kept.takes_interrupts(node, machine),
        });
    }
    Ok(())
}

/// All memory of the domains.
///
/// # Errors
///
/// [`MemoryMapError`].
fn memory_of_all() -> Result<MemoryMap, MemoryMapError> {
    let ranges = domain::all().flat_map(|domain| domain.memory.ranges());
    let mut all = ArrayVec::<PhysRange, MAX_RANGES>::new();
    for range in ranges {
        all.try_push(*range)
            .map_err(|_| MemoryMapError::TooManyRanges)?;
    }
    MemoryMap::new(&all, &[])
}

/// Memory that is in use when the next stages start.
///
/// # Safety
///
/// The trees of `stages` are there, and no other code uses them.
unsafe fn taken(
    machine: &Machine,
    partition: &Partition,
    stages: &[LoadedStage],
    firmware: PhysRange,
) -> Result<Taken, SetupError> {
    let mut taken = Taken::new();
    let mut add = |range| taken.try_push(range).map_err(|_| SetupError::TooManyTaken);
    add(firmware)?;
    let reserved = |reserved: &Reserved| reserved.range;
    (machine.reserved.iter().map(reserved)).try_for_each(&mut add)?;
    for (node, stage) in partition.domains.iter().zip(stages) {
        stage.taken().try_for_each(&mut add)?;
        let Some(tree) = stage.tree else { continue };
        let start = core::ptr::with_exposed_provenance(tree.start as usize);
        let bytes = tree.length() - poorwill_domain::TREE_GROWTH;
        // SAFETY: by the caller's contract a tree of this length was found there.
        let blob = unsafe { slice::from_raw_parts(start, bytes as usize) };
        let of_tree = reserved_of(blob).map_err(|error| SetupError::Tree(node.name, error))?;
        (of_tree.iter().map(reserved)).try_for_each(&mut add)?;
    }
    Ok(taken)
}

/// Places the firmware's second range in memory of no domain. If there is not enough, it lies in a
/// domain whose tree can reserve it; the domain that wakes last comes first.
fn second_range(
    machine: &Machine,
    partition: &Partition,
    stages: &[LoadedStage],
    taken: &[PhysRange],
    bytes: u64,
) -> Result<PhysRange, SetupError> {
    let of = |node: &DomainNode| memory_of(node, &machine.memory);
    let mut owned = ArrayVec::<PhysRange, { MAX_DOMAINS * MAX_SPANS }>::new();
    for node in &partition.domains {
        owned.extend(of(node)?);
    }
    if let Ok(free) = MemoryMap::new(&machine.memory, &owned)
        && let Some(found) = place(free.ranges(), taken, bytes)
    {
        return Ok(found);
    }
    let with_trees = partition.domains.iter().zip(stages);
    let with_trees = with_trees.filter(|(_, stage)| stage.tree.is_some());
    for (node, _) in with_trees.rev() {
        if let Some(found) = place(&of(node)?, taken, bytes) {
            return Ok(found);
        }
    }
    Err(SetupError::NoRoom(bytes))
}
